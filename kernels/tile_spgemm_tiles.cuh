// tile_spgemm's operands on the GPU: CSR becomes 8 x 8 bitmap tiles, by rows for A, by columns for
// B. Eight lanes, one for each row of a tile row, go through its tiles together: the next tile is
// that of the smallest column that any of them has left. See kernels/tile_spgemm.cpp.
#pragma once

#include <cuda_fp16.h>

#include <climits>
#include <cstdint>

#include "kernels/tile_spgemm.hpp"

namespace tessera::tile_spgemm {

constexpr int kThreads = 256;
constexpr unsigned kAllLanes = 0xffffffff;

struct CsrView {
  std::int32_t rows, tile_rows;
  std::int64_t nonzeros;
  const std::int64_t* row_offsets;  // [rows + 1]
  const std::int32_t* col_indices;  // [nonzeros]
  const float* values;              // [nonzeros]
};

__device__ inline std::int64_t global_thread() {
  return std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
}

/// The bits of a tile before this one.
__device__ inline std::uint64_t bits_before(std::uint64_t bitmap, int bit) {
  return bitmap & ((std::uint64_t{1} << bit) - 1);
}

__device__ inline std::uint64_t shuffle(std::uint64_t value, int lane, int width) {
  return __shfl_sync(kAllLanes, static_cast<unsigned long long>(value), lane, width);
}

/// The OR over eight lanes.
__device__ inline std::uint64_t join_rows(std::uint64_t bits) {
#pragma unroll
  for (int step = 1; step < kSide; step *= 2)
    bits |= __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(bits), step);
  return bits;
}

/// A lane's way through its row of a tile row. Whole warps take every step together.
class RowOfTiles {
 public:
  __device__ RowOfTiles(const CsrView& csr, std::int64_t tile_row) : cols_(csr.col_indices) {
    const std::int64_t row = tile_row * kSide + threadIdx.x % kSide;
    if (row >= csr.rows) return;
    at_ = csr.row_offsets[row];
    end_ = csr.row_offsets[row + 1];
    fetch();
  }

  /// The column of the tile row's next tile, kNone past the last: the same for its eight lanes.
  __device__ std::int32_t next_col() const {
    std::int32_t col = col_ == kNone ? kNone : col_ / kSide;
#pragma unroll
    for (int step = 1; step < kSide; step *= 2)
      col = min(col, __shfl_xor_sync(kAllLanes, col, step));
    return col;
  }

  /// Passes the row's part of that tile: its bits.
  __device__ std::uint32_t take(std::int32_t tile_col) {
    std::uint32_t bits = 0;
    while (col_ != kNone && col_ / kSide == tile_col) {
      bits |= 1u << col_ % kSide;
      ++at_;
      fetch();
    }
    return bits;
  }

  /// The next nonzero.
  __device__ std::int64_t at() const { return at_; }

  static constexpr std::int32_t kNone = INT_MAX;

 private:
  __device__ void fetch() { col_ = at_ < end_ ? cols_[at_] : kNone; }

  const std::int32_t* cols_;
  std::int64_t at_ = 0, end_ = 0;
  std::int32_t col_ = kNone;
};

/// How many tiles each tile row has; 0 at the end. [tile rows + 1]
inline __global__ void __launch_bounds__(kThreads) count_tiles(CsrView csr, std::int32_t* counts) {
  const std::int64_t tile_row = global_thread() / kSide;
  RowOfTiles row(csr, tile_row);
  std::int32_t count = 0;
  while (true) {
    const std::int32_t col = row.next_col();
    if (__all_sync(kAllLanes, col == RowOfTiles::kNone)) break;
    if (col == RowOfTiles::kNone) continue;
    ++count;
    row.take(col);
  }
  if (threadIdx.x % kSide == 0 && tile_row <= csr.tile_rows) counts[tile_row] = count;
}

/// The largest magnitude of a matrix, as bits, which start as zero.
inline __global__ void __launch_bounds__(kThreads)
    find_largest(const float* values, std::int64_t count, std::uint32_t* largest) {
  std::uint32_t own = 0;
  for (std::int64_t i = global_thread(); i < count; i += std::int64_t{gridDim.x} * kThreads)
    own = max(own, __float_as_uint(fabsf(values[i])));
  own = __reduce_max_sync(kAllLanes, own);
  if (threadIdx.x % 32 == 0 && own > 0) atomicMax(largest, own);
}

/// A value as the tiles hold it: FP32 for TF32, of which each MMA makes its parts.
__device__ inline void convert_to(float& to, float value, int) { to = value; }
__device__ inline void convert_to(std::uint16_t& to, float value, int exponent) {
  to = __half_as_ushort(__float2half_rn(ldexpf(value, exponent)));
}

/// Tiles in one of both orders.
template <class Value>
struct TilesOut {
  Tile* tiles;            // [tiles], or nullptr: not wanted
  Value* values;          // [nonzeros] by tile, in the order of its bits
  std::uint32_t* places;  // [nonzeros] of the matrix: where in values; nullptr: not asked for
};

template <class Value>
struct TilesIn {
  const Tile* __restrict__ tiles;
  const Value* __restrict__ values;
};

/// Where the tiles of a matrix go.
template <class Value>
struct Filling {
  const std::int32_t* begins;    // [tile rows + 1] of tiles
  const std::uint32_t* largest;  // magnitude, as bits; nullptr where values are not scaled
  std::int32_t* cols;            // [tiles]
  TilesOut<Value> by_rows, by_cols;
};

/// Puts nonzero `from` of the matrix at a place of its tile's values.
template <class Value>
__device__ void put_value(const TilesOut<Value>& to, std::int64_t from, std::uint32_t place,
                          Value value) {
  to.values[place] = value;
  if (to.places != nullptr) to.places[from] = place;
}

/// Writes a lane's row of a tile, whose nonzeros are those of the matrix from `from` on.
template <class Value>
__device__ void fill_row(const Filling<Value>& to, const Tile& tile, std::uint32_t bits,
                         const float* values, std::int64_t from, int exponent) {
  const int row = static_cast<int>(threadIdx.x) % kSide;
  const std::uint64_t by_cols = transposed(tile.bitmap);
  auto of_row = tile.first_value +
                static_cast<std::uint32_t>(__popcll(bits_before(tile.bitmap, kSide * row)));
  for (; bits != 0; bits &= bits - 1, ++from) {
    Value value;
    convert_to(value, values[from], exponent);
    if (to.by_rows.tiles != nullptr) put_value(to.by_rows, from, of_row++, value);
    const int col = __ffs(static_cast<int>(bits)) - 1;
    if (to.by_cols.tiles != nullptr)
      put_value(to.by_cols, from,
                tile.first_value +
                    static_cast<std::uint32_t>(__popcll(bits_before(by_cols, kSide * col + row))),
                value);
  }
}

/// Puts other values of a matrix in the place of those that were.
template <class Value>
__global__ void __launch_bounds__(kThreads)
    renew_values(const float* values, std::int64_t count, const std::uint32_t* largest,
                 TilesOut<Value> by_rows, TilesOut<Value> by_cols) {
  const std::int64_t at = global_thread();
  if (at >= count) return;
  Value value;
  convert_to(value, values[at],
             largest == nullptr ? 0 : scaling_exponent(__uint_as_float(*largest)));
  if (by_rows.tiles != nullptr) by_rows.values[by_rows.places[at]] = value;
  if (by_cols.tiles != nullptr) by_cols.values[by_cols.places[at]] = value;
}

template <class Value>
__global__ void __launch_bounds__(kThreads) fill_tiles(CsrView csr, Filling<Value> to) {
  const std::int64_t tile_row = global_thread() / kSide;
  const bool is_row = tile_row < csr.tile_rows;
  const int lane = static_cast<int>(threadIdx.x) % kSide;
  const int exponent = to.largest == nullptr ? 0 : scaling_exponent(__uint_as_float(*to.largest));
  RowOfTiles row(csr, tile_row);
  std::int32_t at = is_row ? to.begins[tile_row] : 0;
  auto first_value = static_cast<std::uint32_t>(is_row ? csr.row_offsets[tile_row * kSide] : 0);
  while (true) {
    const std::int32_t col = row.next_col();
    if (__all_sync(kAllLanes, col == RowOfTiles::kNone)) break;
    const std::int64_t from = row.at();
    const std::uint32_t bits = col == RowOfTiles::kNone ? 0 : row.take(col);
    const Tile tile{join_rows(std::uint64_t{bits} << kSide * lane), first_value, col};
    if (col == RowOfTiles::kNone) continue;
    fill_row(to, tile, bits, csr.values, from, exponent);
    if (lane == 0) {
      to.cols[at] = col;
      if (to.by_rows.tiles != nullptr) to.by_rows.tiles[at] = tile;
      if (to.by_cols.tiles != nullptr)
        to.by_cols.tiles[at] = {transposed(tile.bitmap), first_value, col};
    }
    first_value += static_cast<std::uint32_t>(__popcll(tile.bitmap));
    ++at;
  }
}

}  // namespace tessera::tile_spgemm
