// The device half of kernels/narrowing.hpp, for kernels that store their sums.
#pragma once

#include "kernels/device/loads.cuh"
#include "kernels/device/overlapped_launch.cuh"
#include "kernels/narrowing.hpp"

namespace tessera {

/// Whether the launch is to run. The load keeps its place, so that others can follow it before its
/// result is waited for. A launch that is not to run still ends behind the one before it, for which
/// one thread block waits.
__device__ inline bool is_to_run(const Narrowing& narrowing) {
  if (narrowing.word == nullptr) return true;
  if (narrowing.waits_first) wait_for_launch_before();
  allow_next_launch();
  const bool runs = load_ahead(narrowing.word) == narrowing.wanted;
  if (!narrowing.waits_first && (runs || (blockIdx.x == 0 && blockIdx.y == 0)))
    wait_for_launch_before();
  return runs;
}

__device__ inline float scale_of_row(const Narrowing& narrowing, std::int64_t row) {
  return narrowing.row_scales == nullptr ? 1 : narrowing.row_scales[row];
}

/// Multiplies sums of columns [col, col + kCount) of C by the scale of their row and those of their
/// columns, of which `cols` exist. With `kAligned`, all exist or none, and `col` is a multiple of
/// kCount, itself one of four.
template <bool kAligned, int kCount>
__device__ void scale_sums(const Narrowing& narrowing, float row_scale, std::int64_t col,
                           std::int64_t cols, float (&sums)[kCount]) {
  if (narrowing.col_scales == nullptr) return;
  if constexpr (kAligned) {
    if (cols <= 0) return;
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const auto scales = *reinterpret_cast<const float4*>(narrowing.col_scales + col + i);
      sums[i] = sums[i] * row_scale * scales.x;
      sums[i + 1] = sums[i + 1] * row_scale * scales.y;
      sums[i + 2] = sums[i + 2] * row_scale * scales.z;
      sums[i + 3] = sums[i + 3] * row_scale * scales.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (i < cols) sums[i] = sums[i] * row_scale * narrowing.col_scales[col + i];
  }
}

}  // namespace tessera
