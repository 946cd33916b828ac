// The device half: a launch that narrows B, and two that multiply, of which one ends at once.
//
// Every thread block of the launch that narrows finds the scales from the same sample of rows,
// while its first rows arrive, and rounds its share of B; the last one to end judges whether the
// scales were right. A warp has 128 columns of its rows.

#include "kernels/spmm/narrowed/narrowed_spmm.hpp"

#include <algorithm>

#include "formats/base/device_memory.hpp"
#include "formats/base/registry.hpp"
#include "kernels/device/limits_of_gpu.hpp"
#include "kernels/device/loads.cuh"
#include "kernels/device/overlapped_launch.cuh"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/narrowed/narrowed_b.hpp"
#include "kernels/spmm/narrowed/schedule.hpp"
#include "kernels/spmm/narrowed/trace.hpp"
#include "kernels/tensor_core/half_operands.cuh"

namespace tessera::narrowed {
namespace {

constexpr std::int64_t kMaxSegments = 65535;

struct Arguments {
  const float* b;          // [k x n]
  std::uint16_t* halves;   // [k x n]
  float* col_scales;       // [n]
  std::uint32_t* is_wide;  // whether B cannot be narrowed
  // Zero between launches:
  std::uint32_t* largest;  // [n] bits of the largest magnitude of each column, scaled
  std::uint32_t* ended;    // thread blocks
  std::uint32_t* wide;     // nonzero where a thread block has found B to be wide
  std::int64_t k, n;
};

/// The columns of a lane.
template <bool kAligned>
struct Lane {
  std::int64_t col, n;

  __device__ Lane(std::int64_t of_n)
      : col(std::int64_t{blockIdx.y} * kSegmentCols +
            kLaneCols * static_cast<std::int64_t>(threadIdx.x % 32)),
        n(of_n) {}

  __device__ float4 load(const float* b, std::int64_t row) const {
    const float* from = b + row * n + col;
    float each[kLaneCols] = {};
    if constexpr (kAligned) {
      load_if<4>(col < n, from, each);
    } else {
      for (int i = 0; i < kLaneCols; ++i)
        if (col + i < n) each[i] = from[i];
    }
    return {each[0], each[1], each[2], each[3]};
  }
  __device__ void store(std::uint16_t* halves, std::int64_t row, const float4& values) const {
    const std::uint32_t low = PackedFp16::pair(values.x, values.y);
    const std::uint32_t high = PackedFp16::pair(values.z, values.w);
    std::uint16_t* to = halves + row * n + col;
    if constexpr (kAligned) {
      // One store: the compiler would make two of it.
      if (col < n)
        asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(low), "r"(high) : "memory");
    } else {
      const std::uint32_t words[2] = {low, high};
      for (int i = 0; i < kLaneCols; ++i)
        if (col + i < n) to[i] = static_cast<std::uint16_t>(words[i / 2] >> 16 * (i % 2));
    }
  }
};

/// The larger one of a magnitude and that of a value; a NaN is larger than all.
__device__ inline float larger(float magnitude, float value) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(magnitude), "f"(fabsf(value)));
  return larger;
}
__device__ inline void raise(float4& largest, const float4& values) {
  largest.x = larger(largest.x, values.x);
  largest.y = larger(largest.y, values.y);
  largest.z = larger(largest.z, values.z);
  largest.w = larger(largest.w, values.w);
}
/// The bits of the largest magnitude of a lane's elements of a row: bits compare as magnitudes do.
__device__ inline std::uint32_t largest_of(const float4& values) {
  return __float_as_uint(
      larger(larger(fabsf(values.x), values.y), larger(fabsf(values.z), values.w)));
}

/// The bits of the magnitude 2^exponent.
__device__ constexpr std::uint32_t bits_of_power(int exponent) {
  return static_cast<std::uint32_t>(127 + exponent) << 23;
}

/// The factor of sample_factor(), from the bits of the magnitude.
__device__ inline float factor_of_bits(std::uint32_t bits) {
  const int exponent = bits == 0 ? 0 : static_cast<int>(bits >> 23) - 127;
  if (exponent < -kMostExponent || exponent > kMostExponent) return 0;
  return __uint_as_float(bits_of_power(kSampleExponent - exponent));
}

/// The largest magnitudes of the columns of all warps of a thread block, in shared memory.
__device__ void merge_largest(const float4& own, std::uint32_t (&of_block)[kSegmentCols]) {
  const float each[kLaneCols] = {own.x, own.y, own.z, own.w};
  for (int i = 0; i < kLaneCols; ++i)
    atomicMax(of_block + kLaneCols * (threadIdx.x % 32) + i, __float_as_uint(each[i]));
  __syncthreads();
}

template <bool kAligned>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) narrow_b(Arguments arguments) {
  __shared__ std::uint32_t of_sample[kSegmentCols], of_block[kSegmentCols];
  allow_next_launch();
  const Lane<kAligned> lane(arguments.n);
  const std::int64_t warps = std::int64_t{gridDim.x} * kWarps;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t first = std::int64_t{blockIdx.x} * kWarps + warp;
  float4 rows[kInFlight];
  const auto load = [&](std::int64_t at) {
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      rows[i] = {0, 0, 0, 0};
      if (at + i * warps < arguments.k) rows[i] = lane.load(arguments.b, at + i * warps);
    }
  };
  load(first);

  float4 largest{0, 0, 0, 0};
  for (int i = warp; i < kSampleRows; i += kWarps)
    raise(largest, lane.load(arguments.b, sample_row(i, arguments.k)));
  for (int i = static_cast<int>(threadIdx.x); i < kSegmentCols; i += kThreads)
    of_sample[i] = of_block[i] = 0;
  __syncthreads();
  merge_largest(largest, of_sample);
  std::uint32_t of_segment = 0;
  for (int i = 0; i < kLaneCols; ++i)
    of_segment = max(of_segment, of_sample[kLaneCols * (threadIdx.x % 32) + i]);
  of_segment = __reduce_max_sync(~0u, of_segment);
  float factors[kLaneCols];
  bool is_wide = false;
  for (int i = 0; i < kLaneCols; ++i) {
    const std::uint32_t of_col = of_sample[kLaneCols * (threadIdx.x % 32) + i];
    factors[i] = factor_of_bits(of_col == 0 ? of_segment : of_col);
    is_wide |= factors[i] == 0;
    if (blockIdx.x == 0 && warp == 0 && lane.col + i < arguments.n)
      arguments.col_scales[lane.col + i] = 1 / factors[i];
  }

  largest = {0, 0, 0, 0};
#pragma unroll 1
  for (std::int64_t at = first; at < arguments.k; at += kInFlight * warps) {
    if (at != first) load(at);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      float4& values = rows[i];
      values.x *= factors[0], values.y *= factors[1];
      values.z *= factors[2], values.w *= factors[3];
      raise(largest, values);
      const std::uint32_t most = __reduce_max_sync(~0u, largest_of(values));
      is_wide |= most - 1 < bits_of_power(kLeastOfRow) - 1;  // neither zero nor that large
      if (at + i * warps < arguments.k) lane.store(arguments.halves, at + i * warps, values);
    }
  }
  merge_largest(largest, of_block);
  const std::int64_t first_col = std::int64_t{blockIdx.y} * kSegmentCols;
  // Few thread blocks raise the largest magnitude of a column. It is read first, since atomics on
  // the same lines of the L2 wait for each other.
  for (int i = static_cast<int>(threadIdx.x); i < kSegmentCols; i += kThreads)
    if (first_col + i < arguments.n && __ldcg(arguments.largest + first_col + i) < of_block[i])
      atomicMax(arguments.largest + first_col + i, of_block[i]);
  if (is_wide) *arguments.wide = 1;

  // The last thread block judges all columns.
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(arguments.ended, 1) + 1 == gridDim.x * gridDim.y;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  is_wide = __ldcg(arguments.wide) != 0;
  for (std::int64_t i = threadIdx.x; i < arguments.n; i += kThreads) {
    const std::uint32_t bits = __ldcg(arguments.largest + i);
    is_wide |= bits > __float_as_uint(kLargest) || (bits != 0 && bits < bits_of_power(kLeastOfCol));
    arguments.largest[i] = 0;
  }
  is_wide = __syncthreads_or(is_wide) != 0;
  if (threadIdx.x != 0) return;
  *arguments.is_wide = is_wide;
  *arguments.wide = *arguments.ended = 0;
}

/// B in FP16 on the device, made anew by each enqueue().
class NarrowedOnDevice {
 public:
  NarrowedOnDevice(std::int64_t k, std::int64_t n)
      : halves_(static_cast<std::size_t>(k * n)),
        col_scales_(std::vector<float>(static_cast<std::size_t>(n), 1.0f)),
        words_(std::vector<std::uint32_t>(static_cast<std::size_t>(n) + 3, 0)),
        arguments_{.b = nullptr,
                   .halves = halves_.data(),
                   .col_scales = col_scales_.data(),
                   .is_wide = words_.data(),
                   .largest = words_.data() + 3,
                   .ended = words_.data() + 1,
                   .wide = words_.data() + 2,
                   .k = k,
                   .n = n} {
    const Grid grid = grid_of(k, n, limits_of_gpu().sms);
    require<Unsupported>(grid.segments <= kMaxSegments,
                         "B is narrowed with up to {} columns, not {}", kMaxSegments * kSegmentCols,
                         n);
    grid_ = {static_cast<unsigned>(grid.of_rows), static_cast<unsigned>(grid.segments)};
    load_now(narrow_b<true>, narrow_b<false>);
  }

  const std::uint16_t* halves() const { return halves_.data(); }
  const float* col_scales() const { return col_scales_.data(); }
  const std::uint32_t* is_wide() const { return words_.data(); }

  void enqueue(const float* b, cudaStream_t stream) {
    if (arguments_.k == 0) return;
    arguments_.b = b;
    const bool aligned =
        arguments_.n % kLaneCols == 0 && reinterpret_cast<std::uintptr_t>(b) % 16 == 0;
    const auto kernel = aligned ? narrow_b<true> : narrow_b<false>;
    kernel<<<grid_, kThreads, 0, stream>>>(arguments_);
    cuda_check(cudaGetLastError(), "launching the narrowing of B");
  }

 private:
  DeviceArray<std::uint16_t> halves_;
  DeviceArray<float> col_scales_;
  DeviceArray<std::uint32_t> words_;
  Arguments arguments_;
  dim3 grid_;
};

class NarrowedMultiplication final : public GpuMultiplication {
 public:
  NarrowedMultiplication(const PackedMatrix& packed, std::int64_t n, const GpuSpmm& narrow,
                         const GpuSpmm& wide, const ScaleRows& scale_rows)
      : b_(packed.cols(), n) {
    const ScaledRows scaled = scale_rows(packed);
    row_scales_ = DeviceArray<float>(scaled.scales);
    narrow_ = narrow.upload(scaled.packed ? *scaled.packed : packed, n);
    wide_ = wide.upload(packed, n);
    const bool overlaps = can_overlap_launches();
    const bool both = narrow_->narrow({.row_scales = row_scales_.data(),
                                       .col_scales = b_.col_scales(),
                                       .word = b_.is_wide(),
                                       .wanted = 0,
                                       .waits_first = true,
                                       .overlaps = overlaps}) &&
                      wide_->narrow({.word = b_.is_wide(), .wanted = 1, .overlaps = overlaps});
    require<Unsupported>(both, "no kernel that scales its sums is compiled for {} columns", n);
  }

  bool place_rows(const std::int32_t* places) override {
    return narrow_->place_rows(places) && wide_->place_rows(places);
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    b_.enqueue(operands.b_fp32(), stream);
    narrow_->launch(0, {b_.halves(), operands.c, operands.scaling}, stream);
    wide_->launch(0, operands, stream);
  }

 private:
  NarrowedOnDevice b_;
  DeviceArray<float> row_scales_;
  std::unique_ptr<GpuMultiplication> narrow_, wide_;
};

class NarrowedGpu final : public GpuSpmm {
 public:
  NarrowedGpu(std::unique_ptr<GpuSpmm> narrow, std::unique_ptr<GpuSpmm> wide, ScaleRows scale_rows)
      : narrow_(std::move(narrow)), wide_(std::move(wide)), scale_rows_(std::move(scale_rows)) {}

  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<NarrowedMultiplication>(packed, n, *narrow_, *wide_, scale_rows_);
  }

 private:
  std::unique_ptr<GpuSpmm> narrow_, wide_;
  ScaleRows scale_rows_;
};

}  // namespace

std::unique_ptr<GpuSpmm> make_gpu(const Recipe& recipe) {
  const auto& kernels = Registry<GpuSpmm>::instance();
  return std::make_unique<NarrowedGpu>(kernels.make(recipe.kernel, recipe.narrow()),
                                       kernels.make(recipe.kernel, recipe.wide()),
                                       recipe.scale_rows);
}

}  // namespace tessera::narrowed
