// acc_spmm's pipeline registers: Acc-SpMM's idea (section 3.4) without its buffers. Rows of B and
// elements of A are loaded to the registers of the lanes that multiply them, 32 columns a warp.
//
// The source loads the rows of the next TC block and the indices of the one after that while one is
// multiplied; the compiler (CUDA 13.0) moves the MMAs behind the wait for both. It is still faster
// than algorithm 2 to the letter (buffered.cuh), because it waits for no copies.
#pragma once

#include "kernels/spmm/acc_spmm/tasks.cuh"

namespace tessera::acc_spmm {

/// The indices that a lane needs before it can load its part of a TC block: condensed columns t and
/// t + 4.
struct TileIndex {
  std::uint64_t bitmap;
  std::uint32_t first_value;
  std::int32_t col[2];
};

/// A lane's fragments: columns 4g to 4g + 3 of two rows of B, two elements of A.
struct TileData {
  float b[2][4];
  float a[2];
};

__device__ inline TileIndex load_index(const View& view, std::uint32_t tile, int t) {
  TileIndex index;
  index.bitmap = view.tc_local_bit[tile];
  index.first_value = view.tc_offset[tile];
  for (int half = 0; half < 2; ++half)
    index.col[half] = view.sparse_a_to_b[tile * std::int64_t{kTileCols} + t + 4 * half];
  return index;
}

/// Loads four columns of a row of B from `col` on; zeros beyond the edge and for padding.
template <bool kAligned>
__device__ void load_from_b(const View& view, const float* __restrict__ b, std::int32_t row,
                            std::int64_t col, float (&out)[4]) {
  const float* from = b + row * view.n + col;
  if constexpr (kAligned) {
    const float4 loaded =
        row >= 0 && col < view.n ? *reinterpret_cast<const float4*>(from) : float4{0, 0, 0, 0};
    out[0] = loaded.x, out[1] = loaded.y, out[2] = loaded.z, out[3] = loaded.w;
  } else {
    for (int i = 0; i < 4; ++i) out[i] = row >= 0 && col + i < view.n ? from[i] : 0.0f;
  }
}

template <bool kAligned>
__device__ TileData load_data(const View& view, const TileIndex& index, const float* b, int group,
                              int t, std::int64_t col) {
  TileData data;
  for (int half = 0; half < 2; ++half) {
    load_from_b<kAligned>(view, b, index.col[half], col, data.b[half]);
    data.a[half] = window_tile::tile_element(index.bitmap, view.values, index.first_value, group,
                                             t + 4 * half);
  }
  return data;
}

template <Tf32Precision kPrecision, class WarpSums>
__device__ void add(const TileData& data, WarpSums& sums) {
  Tf32Operand<kPrecision, 2> tile;
  for (int half = 0; half < 2; ++half) tile.set(half, data.a[half]);
  sums.add(0, data.b, tile);
  sums.end_tile();
}

template <class V>
__global__ void __launch_bounds__(V::schedule().threads())
    run_registers(KernelArguments arguments) {
  constexpr bool kAligned = V::kVariant.aligned;
  constexpr Tf32Precision kPrecision = V::kVariant.precision;
  const int lane = static_cast<int>(threadIdx.x % 32), group = lane / 4, t = lane % 4;
  const View& view = arguments.view;
  const float* b = arguments.b_fp32();
  const auto run = [&](const TaskItem& item, const Task& task) {
    const std::int64_t col = V::schedule().first_col(item.chunk) + 4 * group;
    Accumulators<1, V::kVariant.promotes> sums(arguments.promote);
    if (task.first < task.last) {
      const std::uint32_t end = task.last - 1;
      TileData data = load_data<kAligned>(view, load_index(view, task.first, t), b, group, t, col);
      TileIndex index = load_index(view, min(task.first + 1, end), t);
      for (std::uint32_t tile = task.first; tile < end; ++tile) {
        const TileData next = load_data<kAligned>(view, index, b, group, t, col);
        index = load_index(view, min(tile + 2, end), t);
        add<kPrecision>(data, sums);
        data = next;
      }
      add<kPrecision>(data, sums);
    }
    store_task<V>(arguments, item, task, lane, sums.finish());
  };
  row_windows::for_each_task<V, V::kVariant.equal_shares>(arguments, run);
}

}  // namespace tessera::acc_spmm
