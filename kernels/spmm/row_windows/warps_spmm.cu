// Device half of warps_spmm: one warp per row window. See kernels/spmm/row_windows/warps_spmm.cpp.
//
// The registers of 32 columns are loaded for the next TC block as soon as their MMAs have read
// them: a second set would not fit, and a copy from one set to another would wait for its load.

#include "formats/base/registry.hpp"
#include "kernels/device/loads.cuh"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/row_windows/warps_spmm.hpp"
#include "kernels/spmm/row_windows/window_tile.cuh"

namespace tessera {
namespace {

using warps_spmm::kGroups;
using window_tile::View;

/// The row of B that padding stands for.
__device__ const float4 kZeros[warps_spmm::kPassCols / 4] = {};

/// The indices that a lane needs before it can load its part of a TC block: condensed columns t and
/// t + 4.
struct TileIndex {
  std::uint64_t bitmap;
  std::uint32_t first_value;
  std::int32_t row[2];
};

/// A lane's fragments: four of every 32 columns of B, two elements of A.
struct TileData {
  float b[kGroups][2][4];
  float a[2];
};

/// A lane's loads of one pass over a window.
template <bool kAligned>
class Loader {
 public:
  /// Loads columns [first_col, first_col + 128) of B.
  __device__ Loader(const View& view, const float* b, std::int64_t first_col, int lane)
      : view_(view),
        b_(b + first_col + lane / 4 * 4),
        stride_(static_cast<std::uint32_t>(view.n)),
        cols_(static_cast<int>(view.n - first_col) - lane / 4 * 4),
        zeros_(reinterpret_cast<const float*>(kZeros)),
        group_(lane / 4),
        t_(lane % 4) {}

  __device__ TileIndex index(std::uint32_t tile) const {
    const std::int32_t* rows = view_.sparse_a_to_b + std::uint64_t{tile} * window_tile::kTileCols;
    return {load_ahead(view_.tc_local_bit + tile),
            load_ahead(view_.tc_offset + tile),
            {load_ahead(rows + t_), load_ahead(rows + t_ + 4)}};
  }

  /// The rows of B that condensed columns t and t + 4 stand for, at the lane's first column.
  struct Rows {
    const float* half[2];
  };
  __device__ Rows rows(const TileIndex& index) const {
    Rows rows;
    for (int half = 0; half < 2; ++half) {
      const std::int32_t row = index.row[half];
      const float* real = b_ + std::uint64_t{static_cast<std::uint32_t>(max(row, 0))} * stride_;
      rows.half[half] = row >= 0 ? real : zeros_;
    }
    return rows;
  }

  /// Leaves columns beyond the edge unchanged.
  __device__ void load_b(const Rows& rows, int g, float (&b)[2][4]) const {
    for (int half = 0; half < 2; ++half)
      load_vector(rows.half[half] + g * window_tile::kWarpCols, cols_ - g * window_tile::kWarpCols,
                  b[half]);
  }

  __device__ void load_a(const TileIndex& index, float (&a)[2]) const {
    for (int half = 0; half < 2; ++half)
      a[half] = window_tile::tile_element(index.bitmap, view_.values, index.first_value, group_,
                                          t_ + 4 * half);
  }

 private:
  __device__ static void load_vector(const float* from, int cols, float (&to)[4]) {
    if constexpr (kAligned) {
      if (cols <= 0) return;
      const float4 vector = load_16_bytes(from);
      to[0] = vector.x, to[1] = vector.y, to[2] = vector.z, to[3] = vector.w;
    } else {
      for (int i = 0; i < 4; ++i)
        if (i < cols) to[i] = from[i];
    }
  }

  const View& view_;
  const float* b_;        // the lane's columns of row 0
  std::uint32_t stride_;  // of B, in elements
  int cols_;              // from the lane's first column to the edge
  const float* zeros_;
  int group_, t_;
};

__device__ Tf32Operand<Tf32Precision::kRounded, 2> operand_a(const TileData& data) {
  Tf32Operand<Tf32Precision::kRounded, 2> tile;
  for (int half = 0; half < 2; ++half) tile.set(half, data.a[half]);
  return tile;
}

/// acc = the window's TC blocks [first, last), which is not empty, times their rows of B.
template <bool kAligned>
__device__ void multiply_window(const Loader<kAligned>& loader, std::uint32_t first,
                                std::uint32_t last, float (&acc)[kGroups][2][4]) {
  TileData data = {};
  TileIndex index = loader.index(first);
  auto rows = loader.rows(index);
  for (int g = 0; g < kGroups; ++g) loader.load_b(rows, g, data.b[g]);
  loader.load_a(index, data.a);
  index = loader.index(min(first + 1, last - 1));
  for (std::uint32_t next = first + 1; next < last; ++next) {
    const auto tile = operand_a(data);
    rows = loader.rows(index);
    loader.load_a(index, data.a);
    index = loader.index(min(next + 1, last - 1));
    for (int g = 0; g < kGroups; ++g) {
      window_tile::multiply(data.b[g], tile, acc[g]);
      loader.load_b(rows, g, data.b[g]);
    }
  }
  const auto tile = operand_a(data);
  for (int g = 0; g < kGroups; ++g) window_tile::multiply(data.b[g], tile, acc[g]);
}

template <bool kAligned>
__global__ void __launch_bounds__(warps_spmm::kThreads, 2)
    multiply_by_warps(View view, const float* __restrict__ b, float* __restrict__ c,
                      Scaling scaling) {
  const std::int64_t window = warps_spmm::window_of(blockIdx.x, threadIdx.x / 32);
  if (window >= view.windows) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::uint32_t first = view.row_window_offset[window];
  const std::uint32_t last = view.row_window_offset[window + 1];
  for (std::int64_t first_col = 0; first_col < view.n; first_col += warps_spmm::kPassCols) {
    float acc[kGroups][2][4] = {};
    if (first < last) multiply_window(Loader<kAligned>(view, b, first_col, lane), first, last, acc);
    for (int g = 0; g < kGroups; ++g)
      window_tile::store<kAligned>(view, c, scaling, window, lane % 4,
                                   first_col + g * window_tile::kWarpCols + lane / 4 * 4, acc[g]);
  }
}

class WarpsMultiplication final : public GpuMultiplication {
 public:
  WarpsMultiplication(const BitTcf& a, std::int64_t n)
      : a_(a), view_(a_.view(n)), thread_blocks_(warps_spmm::thread_blocks(view_.windows)) {
    load_now(multiply_by_warps<true>, multiply_by_warps<false>);
  }

  std::vector<int> registers() const override { return {registers_of(multiply_by_warps<true>)}; }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (thread_blocks_ == 0 || view_.n == 0) return;
    const auto kernel =
        aligned_to_16_bytes(view_.n, operands) ? multiply_by_warps<true> : multiply_by_warps<false>;
    kernel<<<static_cast<unsigned>(thread_blocks_), warps_spmm::kThreads, 0, stream>>>(
        view_, operands.b_fp32(), operands.c_fp32(), operands.scaling);
    cuda_check(cudaGetLastError(), "launching warps_spmm");
  }

 private:
  window_tile::PackedOnDevice a_;
  View view_;
  std::int64_t thread_blocks_;
};

class GpuWarpsSpmm final : public GpuSpmm {
 public:
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<WarpsMultiplication>(packed_as<BitTcf>(packed), n);
  }
};

const Register<GpuSpmm> entry{{
    .name = "warps_spmm",
    .summary = "device half of warps_spmm",
    .make = [](const Params&) { return std::make_unique<GpuWarpsSpmm>(); },
}};

}  // namespace
}  // namespace tessera
