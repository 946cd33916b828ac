// The kernel of sputnik_sddmm: a subwarp computes a strip of a row. See
// kernels/sddmm/sputnik/sputnik_sddmm.cpp.
#pragma once

#include "kernels/sddmm/shared/elements.cuh"
#include "kernels/sddmm/sputnik/sputnik_sddmm.hpp"

namespace tessera::sputnik_sddmm {

struct Arguments {
  const std::int32_t* rows;         // [num_rows] the longest first
  const std::int64_t* row_offsets;  // [num_rows + 1]
  const std::int32_t* columns;      // [nnz]
  const float* factors;             // [nnz] or null
  std::int64_t num_rows;
  std::uint32_t k;
  const char* x;
  const char* y;
  float* s;
};

/// Adds the lanes' sums of every nonzero; lane l is left with kStrip / kLanes of them, of nonzeros
/// from the returned one on.
template <int kLanes>
__device__ int add_lanes(int lane, float (&sums)[kStrip]) {
  int first = 0, count = kStrip;
#pragma unroll
  for (int half = kLanes / 2; half > 0; half /= 2) {
    count /= 2;
    const bool upper = (lane & half) != 0;
#pragma unroll
    for (int i = 0; i < kStrip / 2; ++i) {
      if (i >= count) break;
      const float kept = upper ? sums[i + count] : sums[i];
      const float given = upper ? sums[i] : sums[i + count];
      sums[i] = kept + __shfl_xor_sync(~0u, given, half);
    }
    if (upper) first += count;
  }
  return first;
}

template <int kLanes, bool kAligned>
__global__ void __launch_bounds__(kThreads) run(Arguments arguments) {
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const std::int64_t index = std::int64_t{blockIdx.x} * (kThreads / kLanes) + threadIdx.x / kLanes;
  std::int64_t row = 0, first = 0;
  int count = 0;
  if (index < arguments.num_rows) {
    row = __ldg(arguments.rows + index);
    const std::int64_t end = __ldg(arguments.row_offsets + row + 1);
    first = __ldg(arguments.row_offsets + row) + std::int64_t{blockIdx.y} * kStrip;
    count = static_cast<int>(max(min(end - first, std::int64_t{kStrip}), std::int64_t{0}));
  }
  // Subwarps of a warp leave together: they meet in shuffles.
  const int most = __reduce_max_sync(~0u, count);
  if (most == 0) return;

  const std::uint32_t row_bytes = 4 * arguments.k;
  float sums[kStrip] = {};
#pragma unroll 1
  for (std::uint32_t col = 0; col < arguments.k; col += kLanes * kLaneCols) {
    const std::uint32_t offset = 4 * col + 16 * lane;
    const int left = static_cast<int>(std::int64_t{row_bytes} - offset);
    float x[4] = {};
    sddmm::load_words<4, kAligned>(count > 0, arguments.x + row * row_bytes + offset, left, x);
#pragma unroll
    for (int begin = 0; begin < kStrip; begin += kUnroll) {
      if (begin >= most) break;
      float y[kUnroll][4] = {};
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        const bool exists = begin + i < count;
        const std::int32_t column = exists ? __ldg(arguments.columns + first + begin + i) : 0;
        sddmm::load_words<4, kAligned>(
            exists,
            arguments.y + std::uint64_t{static_cast<std::uint32_t>(column)} * row_bytes + offset,
            left, y[i]);
      }
#pragma unroll
      for (int i = 0; i < kUnroll; ++i)
#pragma unroll
        for (int w = 0; w < 4; ++w) sums[begin + i] = fmaf(x[w], y[i][w], sums[begin + i]);
    }
  }
  const int mine = add_lanes<kLanes>(lane, sums);
#pragma unroll
  for (int i = 0; i < kStrip / kLanes; ++i) {
    if (mine + i >= count) continue;
    float value = sums[i] + 0.0f;  // -0 becomes 0
    if (arguments.factors != nullptr)
      value = __fmul_rn(value, __ldg(arguments.factors + first + mine + i));
    arguments.s[first + mine + i] = value;
  }
}

}  // namespace tessera::sputnik_sddmm
