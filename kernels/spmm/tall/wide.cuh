// The product of tall tiles by a B in FP32 on CUDA cores, for what cannot be narrowed.
//
// A warp multiplies a row of C and 128 columns of it. It finds the row's nonzeros in every tile of
// its window by a search, and adds them in FP32, by ascending columns.
#pragma once

#include "kernels/device/loads.cuh"
#include "kernels/device/narrowed_sums.cuh"
#include "kernels/device/store_16_bytes.cuh"
#include "kernels/spmm/tall/arguments.cuh"

namespace tessera::tall_spmm {

/// The first index in [first, last) whose place is at least `place`.
__device__ inline std::uint32_t find_place(const std::uint16_t* places, std::uint32_t first,
                                           std::uint32_t last, std::uint32_t place) {
  while (first < last) {
    const std::uint32_t middle = first + (last - first) / 2;
    if (__ldg(places + middle) < place)
      first = middle + 1;
    else
      last = middle;
  }
  return first;
}

template <bool kAligned>
__device__ void multiply_row(const WideArguments& arguments, std::uint32_t row,
                             std::uint32_t first_col) {
  constexpr int kLaneCols = kCols / 32;
  const DenseArguments& dense = arguments.dense;
  const std::uint32_t col = first_col + threadIdx.x % 32 * kLaneCols;
  const std::uint32_t window = row / kWindowRows, in_window = row % kWindowRows;
  const auto* const b = static_cast<const float*>(dense.b);
  float sums[kLaneCols] = {};
  for (std::uint32_t tile = arguments.window_offset[window];
       tile < arguments.window_offset[window + 1]; ++tile) {
    const std::uint32_t end = arguments.tile_offset[tile + 1];
    for (std::uint32_t k =
             find_place(arguments.places, arguments.tile_offset[tile], end, in_window * kTileCols);
         k < end; ++k) {
      const std::uint32_t place = __ldg(arguments.places + k);
      if (TallTiles::row_of(place) != in_window) break;
      const std::int32_t b_row =
          __ldg(arguments.tile_cols + std::uint64_t{tile} * kTileCols + TallTiles::col_of(place));
      const float value = __ldg(arguments.values + k);
      const float* const from = b + std::int64_t{b_row} * dense.n + col;
      float elements[kLaneCols] = {};
      if constexpr (kAligned) {
        load_if<kLaneCols>(col < dense.n, from, elements);
      } else {
        for (int i = 0; i < kLaneCols; ++i)
          if (col + i < dense.n) elements[i] = from[i];
      }
      for (int i = 0; i < kLaneCols; ++i) sums[i] = fmaf(value, elements[i], sums[i]);
    }
  }
  const std::uint32_t place =
      dense.places == nullptr ? row : static_cast<std::uint32_t>(dense.places[row]);
  store_16_bytes<kAligned>(static_cast<float*>(dense.c) + std::uint64_t{place} * dense.n + col,
                           {sums[0], sums[1], sums[2], sums[3]},
                           std::int64_t{dense.n} - std::int64_t{col}, dense.scaling);
}

/// The thread blocks take rows of a chunk of columns in turn. They are few, so that a launch which
/// is not to run ends soon.
template <bool kAligned>
__global__ void __launch_bounds__(kWideThreads) multiply_wide(const WideArguments arguments) {
  const DenseArguments& dense = arguments.dense;
  if (!is_to_run(dense.narrowing)) return;
  const std::uint64_t items = wide_items(dense.rows, dense.n);
  for (std::uint64_t item = std::uint64_t{blockIdx.x} * kWideRows + threadIdx.x / 32; item < items;
       item += std::uint64_t{gridDim.x} * kWideRows)
    multiply_row<kAligned>(arguments, static_cast<std::uint32_t>(item % dense.rows),
                           static_cast<std::uint32_t>(item / dense.rows) * kCols);
}

}  // namespace tessera::tall_spmm
