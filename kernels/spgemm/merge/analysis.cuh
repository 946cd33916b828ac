// The launches of merge_spgemm beside its merges: the bins of rows and the number of products,
// which the host reads, the offsets of rows in C, and the move of merged rows to them. See
// kernels/spgemm/merge/merge_spgemm.cu.
#pragma once

#include <cstdint>

#include "kernels/spgemm/merge/merge_spgemm.hpp"
#include "kernels/spgemm/shared/reports.cuh"
#include "kernels/spgemm/shared/row_bins.cuh"
#include "kernels/spgemm/shared/rows.cuh"
#include "kernels/spgemm/shared/tile_sums.cuh"

namespace tessera::merge_spgemm {

constexpr int kThreads = 256;
constexpr int kEmptyBin = kWidths, kLongBin = kWidths + 1, kBins = kWidths + 2;

using Bins = row_bins::RowBins<kBins>;

/// The most tiles of rows that are merged once, whose lengths add up by tile.
constexpr std::int64_t kMostTiles = 4 * spgemm::kMostTiles;

/// The number of pieces of a long row.
__device__ inline int pieces_of(std::int64_t inputs, int most_rows) {
  return static_cast<int>((inputs + most_rows - 1) / most_rows);
}

/// The bin of a row of a level by its inputs, and the number of its pieces.
struct BinOf {
  static constexpr int kWatchedBin = kLongBin;
  const std::int64_t* begins;
  int most_rows;

  __device__ row_bins::RowBin operator()(std::int64_t place) const {
    const std::int64_t inputs = begins[place + 1] - begins[place];
    if (inputs == 0) return {kEmptyBin, 0};
    if (inputs > most_rows) return {kLongBin, pieces_of(inputs, most_rows)};
    return {width_class_for(inputs), 0};
  }
};

/// The bin of a row of level 0 when rows are listed. Empty rows get their lengths, as does the end
/// of the lengths: nothing else writes them.
struct ListedBinOf {
  BinOf bin_of;
  std::int64_t rows;
  int* lengths;  // [rows + 1]

  __device__ row_bins::RowBin operator()(std::int64_t row) const {
    const row_bins::RowBin chosen = bin_of(row);
    if (chosen.bin == kEmptyBin) lengths[row] = 0;
    if (row + 1 == rows) lengths[rows] = 0;
    return chosen;
  }
};

/// What the analysis finds, which the host reads before it allocates memory.
struct Found {
  Bins::State bins;  // of A's rows
  row_bins::Sum products;
  std::uint32_t blocks_done, unused;  // thread blocks of the analysis
};

/// What the analysis and the launches after it keep on the device.
struct Kept {
  Found found;                         // all zeros between analyses
  row_bins::Sum of_tiles[kMostTiles];  // lengths of rows of C, while they are counted
  unsigned taken;                      // of the room for products
};

/// Chooses the bins of A's rows in the first `row_blocks` thread blocks, counts products in the
/// others, clears the sums over tiles, and reports what is found.
static __global__ void __launch_bounds__(kThreads)
    analyse_rows(std::int64_t rows, unsigned row_blocks, BinOf bin_of, std::int64_t nonzeros_of_a,
                 const std::int32_t* __restrict__ a_cols,
                 const std::int64_t* __restrict__ b_offsets, Kept* kept,
                 spgemm::Report<Found> report) {
  static_assert(kThreads == row_bins::kThreads && kThreads == spgemm::kAddThreads);
  Found* const found = &kept->found;
  if (blockIdx.x < row_blocks)
    row_bins::choose_bins_of_block(std::int64_t{blockIdx.x}, rows, bin_of, nullptr,
                                   &found->bins.counts);
  else
    spgemm::add_products_from(std::int64_t{blockIdx.x - row_blocks} * kThreads + threadIdx.x,
                              std::int64_t{gridDim.x - row_blocks} * kThreads, nonzeros_of_a,
                              a_cols, b_offsets, &found->products);
  if (blockIdx.x == 0) {
    for (int i = static_cast<int>(threadIdx.x); i < kMostTiles; i += kThreads)
      kept->of_tiles[i] = 0;
    if (threadIdx.x == 0) kept->taken = 0;
  }
  if (!spgemm::is_last_block(&found->blocks_done)) return;
  spgemm::write_report(report);
  __syncthreads();
  auto* const words = reinterpret_cast<std::uint32_t*>(found);
  for (unsigned i = threadIdx.x; i < sizeof(Found) / sizeof(std::uint32_t); i += kThreads)
    words[i] = 0;
}

/// Finds the offsets of rows in C from their lengths and from the sums of these over tiles.
static __global__ void __launch_bounds__(spgemm::kTile)
    place_rows(std::int64_t rows, const int* lengths, const row_bins::Sum* of_tiles,
               std::int64_t* offsets) {
  const std::int64_t row = std::int64_t{blockIdx.x} * spgemm::kTile + threadIdx.x;
  const auto own = static_cast<row_bins::Sum>(row < rows ? lengths[row] : 0);
  const row_bins::Sum before = spgemm::sum_before(own, of_tiles);
  if (row <= rows) offsets[row] = static_cast<std::int64_t>(before);
}

/// Merged rows that do not follow each other.
struct ScatteredRows {
  const int* lengths;             // [rows + 1]
  const row_bins::Sum* of_tiles;  // the sums of lengths over tiles
  const int* rooms;               // [rows]: where each begins in cols and values, unless empty
  const int* cols;
  const float* values;
};

/// Moves rows to their places in C, whose offsets it writes. A thread block moves the elements of
/// the rows of its tile in the order of C.
static __global__ void __launch_bounds__(spgemm::kTile)
    move_rows(std::int64_t rows, ScatteredRows from, std::int64_t* offsets, int* cols,
              float* values) {
  constexpr int kTile = spgemm::kTile, kAtOnce = 4;
  __shared__ int begins[kTile], rooms[kTile], elements;
  __shared__ std::int64_t first;
  const int own = static_cast<int>(threadIdx.x);
  const std::int64_t row = std::int64_t{blockIdx.x} * kTile + own;
  const int length = row < rows ? from.lengths[row] : 0;
  const int room = length > 0 ? from.rooms[row] : 0;
  const auto before = static_cast<std::int64_t>(
      spgemm::sum_before(static_cast<row_bins::Sum>(length), from.of_tiles));
  if (row <= rows) offsets[row] = before;
  if (own == 0) first = before;
  __syncthreads();
  const int begin = static_cast<int>(before - first);
  begins[own] = begin;
  rooms[own] = room - begin;
  if (own == kTile - 1) elements = begin + length;
  __syncthreads();
  cols += first;
  values += first;
  for (int at = own; at < elements; at += kAtOnce * kTile) {
    int col[kAtOnce];
    float value[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int to = at + u * kTile;
      if (to >= elements) continue;
      int of_tile = 0;  // the last row that begins there or before
#pragma unroll
      for (int step = kTile / 2; step > 0; step /= 2)
        if (begins[of_tile + step] <= to) of_tile += step;
      col[u] = from.cols[rooms[of_tile] + to];
      value[u] = from.values[rooms[of_tile] + to];
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int to = at + u * kTile;
      if (to >= elements) continue;
      cols[to] = col[u];
      values[to] = value[u];
    }
  }
}

}  // namespace tessera::merge_spgemm
