// Tiles of 32 x 32 pass through shared memory, so that in both layouts 32 neighbouring lanes access
// neighbouring elements. A row of the tile is 33 long, so that its columns are in different banks.
#include "kernels/device/device_matrix.hpp"

#include <algorithm>
#include <climits>

#include "formats/base/device_memory.hpp"
#include "kernels/gpu_spmm.hpp"

namespace tessera {
namespace {

constexpr int kTile = 32;
constexpr int kThreadRows = 8;  // a thread block is 32 x 8

struct Conversion {
  const float* from;
  Strides from_strides;
  const std::int32_t* from_row;  // [rows], or null
  float* to;
  Strides to_strides;
  std::int64_t rows, cols;
  Scaling scaling;
};

/// Calls visit(row, col) for the thread's elements of a tile; lanes follow the contiguous side.
template <class Visit>
__device__ void for_each_place(const Strides& strides, Visit visit) {
  for (int k = threadIdx.y; k < kTile; k += kThreadRows) {
    const int lane = static_cast<int>(threadIdx.x);
    if (strides.col == 1)
      visit(k, lane);
    else
      visit(lane, k);
  }
}

__global__ void __launch_bounds__(kTile* kThreadRows) convert(Conversion m) {
  __shared__ float tile[kTile][kTile + 1];
  const std::int64_t tile_cols = (m.cols + kTile - 1) / kTile;
  const std::int64_t tiles = (m.rows + kTile - 1) / kTile * tile_cols;
  for (std::int64_t at = blockIdx.x; at < tiles; at += gridDim.x) {
    const std::int64_t first_row = at / tile_cols * kTile, first_col = at % tile_cols * kTile;
    for_each_place(m.from_strides, [&](int row, int col) {
      const std::int64_t i = first_row + row, j = first_col + col;
      if (i >= m.rows || j >= m.cols) return;
      const std::int64_t source = m.from_row == nullptr ? i : m.from_row[i];
      tile[row][col] = m.from[source * m.from_strides.row + j * m.from_strides.col];
    });
    __syncthreads();
    for_each_place(m.to_strides, [&](int row, int col) {
      const std::int64_t i = first_row + row, j = first_col + col;
      if (i >= m.rows || j >= m.cols) return;
      float* to = m.to + i * m.to_strides.row + j * m.to_strides.col;
      *to = scaled(m.scaling, tile[row][col], to);
    });
    __syncthreads();
  }
}

}  // namespace

Strides Strides::of(const char* name, Order order, std::int64_t ld, std::int64_t rows,
                    std::int64_t cols) {
  const bool by_rows = order == Order::kRowMajor;
  const std::int64_t length = by_rows ? cols : rows;
  require(ld == 0 || ld >= length,
          "{} is {} x {} in {} order: its leading dimension is {}, not {} or more", name, rows,
          cols, by_rows ? "row" : "column", ld, length);
  const std::int64_t step = ld == 0 ? length : ld;
  return by_rows ? Strides{step, 1} : Strides{1, step};
}

void load_convert_layout() { load_now(convert); }

void convert_layout(const float* from, Strides from_strides, const std::int32_t* from_row,
                    float* to, Strides to_strides, std::int64_t rows, std::int64_t cols,
                    Scaling scaling, cudaStream_t stream) {
  if (rows == 0 || cols == 0) return;
  const std::int64_t tiles = (rows + kTile - 1) / kTile * ((cols + kTile - 1) / kTile);
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, INT_MAX));
  convert<<<blocks, dim3(kTile, kThreadRows), 0, stream>>>(
      {from, from_strides, from_row, to, to_strides, rows, cols, scaling});
  cuda_check(cudaGetLastError(), "launching convert_layout");
}

}  // namespace tessera
