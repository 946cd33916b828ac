// tile_spgemm's operands on the GPU: CSR becomes 8 x 8 bitmap tiles, with values by rows for A and
// by columns for B. A thread block makes one tile row: it marks the tile columns of the nonzeros,
// ranks the marks to place the tiles, gathers the tiles' bits and places their values. A tile row
// has room for as many tiles as it has nonzeros, so that nothing needs to be counted before. See
// kernels/spgemm/tile/schedule.hpp and kernels/spgemm/tile/tile_spgemm.cpp.
#pragma once

#include <cuda_fp16.h>

#include <climits>
#include <cstdint>

#include "kernels/spgemm/shared/thread_groups.cuh"
#include "kernels/spgemm/tile/tile_spgemm.hpp"

namespace tessera::tile_spgemm {

using spgemm::kAllLanes;
using spgemm::rank_in;
using Slot = spgemm::Slot<true>;

using Block = spgemm::Group<kThreads>;
static_assert(Block::kWarps == kWarps && sizeof(Slot) == kSlotBytes);

struct CsrView {
  std::int32_t rows, tile_rows, tile_cols;
  std::int64_t nonzeros;
  const std::int64_t* row_offsets;  // [rows + 1]
  const std::int32_t* col_indices;  // [nonzeros]
  const float* values;              // [nonzeros]
};

/// The tiles of a matrix, by tile row, then by tile column.
struct TileMatrix {
  const Tile* tiles;
  const TileRow* rows;  // [tile rows]
};

__device__ inline std::int64_t global_thread() {
  return std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
}

/// The lower or the upper half of a bitmap in shared memory.
__device__ inline std::uint32_t* half_of(std::uint64_t* bitmap, int half) {
  return reinterpret_cast<std::uint32_t*>(bitmap) + half;
}

/// Clears the slots of the first `cols` columns.
__device__ inline void clear_slots(Slot* slots, int cols) {
  for (int i = Block::lane(); i * kColsOfSlot < cols; i += kThreads) slots[i].marks = 0;
}

__device__ inline void mark_col(Slot* slots, std::int32_t col) {
  spgemm::mark_in(slots[col / kColsOfSlot], 1u << (col % kColsOfSlot));
}

__device__ inline int rank_of_col(const Slot* slots, std::int32_t col) {
  return rank_in(slots[col / kColsOfSlot], col);
}

/// Calls visit(rank, column) for the marks of this lane's slot.
template <class Visit>
__device__ void for_marks(std::int32_t first_col, std::uint32_t marks, int rank, Visit visit) {
  for (; marks != 0; marks &= marks - 1)
    visit(rank++, first_col + __ffs(static_cast<int>(marks)) - 1);
}

/// Finds the largest magnitude of a matrix, as bits, for `factors` of the two operands.
/// `largest` [factors] must be zero.
static __global__ void __launch_bounds__(kThreads)
    find_largest(const float* values, std::int64_t count, std::uint32_t* largest, int factors) {
  std::uint32_t own = 0;
  for (std::int64_t i = global_thread(); i < count; i += std::int64_t{gridDim.x} * kThreads)
    own = max(own, __float_as_uint(fabsf(values[i])));
  own = __reduce_max_sync(kAllLanes, own);
  if (threadIdx.x % 32 == 0 && own > 0)
    for (int factor = 0; factor < factors; ++factor) atomicMax(largest + factor, own);
}

/// Converts a value to the form in which tiles store it. TF32 stays FP32: each MMA splits it.
__device__ inline void convert_to(float& to, float value, int) { to = value; }
__device__ inline void convert_to(std::uint16_t& to, float value, int exponent) {
  to = __half_as_ushort(__float2half_rn(ldexpf(value, exponent)));
}

/// The values of a matrix in the order of its tiles' bits, by rows or by columns.
template <class Value>
struct OrderedValues {
  Value* values;          // [nonzeros]; nullptr where this order is not needed
  std::uint32_t* places;  // [nonzeros] of the matrix: index in values; nullptr where not kept

  /// Stores nonzero `from` of the matrix.
  __device__ void put(std::uint32_t from, std::uint32_t place, Value value) const {
    values[place] = value;
    if (places != nullptr) places[from] = place;
  }
};

/// The arrays that receive the tiles of a matrix.
template <class Value>
struct FillTarget {
  Tile* tiles;                   // a tile row begins at the index of its first nonzero
  TileRow* rows;                 // [tile rows]
  const std::uint32_t* largest;  // magnitude, as bits; nullptr where values are not scaled
  OrderedValues<Value> by_rows, by_cols;
};

/// Replaces the values of a matrix.
template <class Value>
__global__ void __launch_bounds__(kThreads)
    renew_values(const float* values, std::int64_t count, const std::uint32_t* largest,
                 OrderedValues<Value> by_rows, OrderedValues<Value> by_cols) {
  const std::int64_t at = global_thread();
  if (at >= count) return;
  Value value;
  convert_to(value, values[at],
             largest == nullptr ? 0 : scaling_exponent(__uint_as_float(*largest)));
  if (by_rows.values != nullptr) by_rows.values[by_rows.places[at]] = value;
  if (by_cols.values != nullptr) by_cols.values[by_cols.places[at]] = value;
}

/// The nonzeros of a tile row.
class NonzerosOfRow {
 public:
  __device__ NonzerosOfRow(const CsrView& csr, std::int32_t tile_row) : cols_(csr.col_indices) {
    const auto begin_of = [&](int row) {
      return static_cast<std::uint32_t>(
          csr.row_offsets[min(std::int64_t{tile_row} * kSide + row, std::int64_t{csr.rows})]);
    };
#pragma unroll
    for (int row = 0; row <= kSide; ++row) begins_[row] = begin_of(row);
    const int own = Block::lane() % kSide;
    const std::uint32_t begin = begin_of(own), end = begin_of(own + 1);
    first_col_ = __reduce_min_sync(kAllLanes, begin < end ? cols_[begin] : INT_MAX);
    last_col_ = __reduce_max_sync(kAllLanes, begin < end ? cols_[end - 1] : -1);
  }

  __device__ std::uint32_t begin() const { return begins_[0]; }

  /// The tile columns [first, end) of its tiles; the first one begins a slot.
  __device__ std::int32_t first_tile_col() const {
    return last_col_ < 0 ? 0 : slot_begin(first_col_ / kSide);
  }
  __device__ std::int32_t end_tile_col() const { return last_col_ < 0 ? 0 : last_col_ / kSide + 1; }

  /// Calls visit(nonzero, its column) for this thread's nonzeros.
  template <class Visit>
  __device__ void each(Visit visit) const {
    constexpr unsigned kAhead = FillTiles::kAhead;
    for (std::uint32_t first = begins_[0] + threadIdx.x; first < begins_[kSide];
         first += kAhead * kThreads) {
      std::int32_t cols[kAhead];
#pragma unroll
      for (unsigned u = 0; u < kAhead; ++u) {
        const std::uint32_t at = first + u * kThreads;
        cols[u] = at < begins_[kSide] ? __ldg(cols_ + at) : -1;
      }
#pragma unroll
      for (unsigned u = 0; u < kAhead; ++u)
        if (cols[u] >= 0) visit(first + u * kThreads, cols[u]);
    }
  }

  /// Returns the row, within the tile row, of a nonzero.
  __device__ int row_of(std::uint32_t nonzero) const {
    int row = 0;
#pragma unroll
    for (int i = 1; i < kSide; ++i) row += nonzero >= begins_[i] ? 1 : 0;
    return row;
  }

 private:
  const std::int32_t* cols_;
  std::uint32_t begins_[kSide + 1];
  std::int32_t first_col_, last_col_;
};

/// Makes the tiles of FillTiles::item_of(thread block). Dynamic shared memory holds the slots.
template <class Value>
__global__ void __launch_bounds__(kThreads) fill_tiles(CsrView csr, FillTarget<Value> to) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ std::uint64_t bitmaps[kTilesGathered];
  __shared__ std::uint32_t first_values[kTilesGathered];
  __shared__ int scratch[Block::kWarps];
  auto* slots = reinterpret_cast<Slot*>(shared);
  const std::int32_t tile_row = FillTiles::item_of(blockIdx.x);
  const int exponent = to.largest == nullptr ? 0 : scaling_exponent(__uint_as_float(*to.largest));
  const NonzerosOfRow nonzeros(csr, tile_row);
  std::uint32_t at = nonzeros.begin(), first_value = at;  // index and first value of the next tile
  const std::int32_t end_col = nonzeros.end_tile_col();
  for (std::int32_t first_col = nonzeros.first_tile_col(); first_col < end_col;
       first_col += kColsGathered) {
    const int cols = min(end_col - first_col, kColsGathered);
    const auto each_here = [&](auto visit) {
      nonzeros.each([&](std::uint32_t from, std::int32_t col) {
        const std::int32_t tile_col = col / kSide - first_col;
        if (tile_col >= 0 && tile_col < cols) visit(from, col, tile_col);
      });
    };
    clear_slots(slots, cols);
    Block::sync();
    each_here(
        [&](std::uint32_t, std::int32_t, std::int32_t tile_col) { mark_col(slots, tile_col); });
    Block::sync();
    const int tiles = spgemm::rank_slots<Block>(
        slots, slots_of(cols), scratch, [&](int slot, std::uint32_t marks, int rank) {
          for_marks(first_col + slot * kColsOfSlot, marks, rank,
                    [&](int tile, std::int32_t col) { to.tiles[at + tile].col = col; });
        });
    for (int begin = 0; begin < tiles; begin += kTilesGathered) {
      const int size = min(tiles - begin, kTilesGathered);
      const auto each_of_these = [&](auto visit) {
        each_here([&](std::uint32_t from, std::int32_t col, std::int32_t tile_col) {
          const int tile = rank_of_col(slots, tile_col) - begin;
          if (tile >= 0 && tile < size) visit(from, tile, nonzeros.row_of(from), col % kSide);
        });
      };
      for (int i = Block::lane(); i < size; i += kThreads) bitmaps[i] = 0;
      Block::sync();
      each_of_these([&](std::uint32_t, int tile, int row, int col) {
        atomicOr(half_of(bitmaps + tile, row / 4), 1u << (row % 4 * kSide + col));
      });
      Block::sync();
      for (int first = 0; first < size; first += kThreads) {
        const int i = first + Block::lane();
        const std::uint64_t bitmap = i < size ? bitmaps[i] : 0;
        int all = 0;
        const int before = Block::before(__popcll(bitmap), all, scratch);
        if (i < size) {
          const std::uint32_t own = first_value + static_cast<std::uint32_t>(before);
          first_values[i] = own;
          Tile& tile = to.tiles[at + begin + i];
          tile.bitmap = bitmap;
          tile.first_value = own;
        }
        first_value += static_cast<std::uint32_t>(all);
      }
      Block::sync();
      each_of_these([&](std::uint32_t from, int tile, int row, int col) {
        Value value;
        convert_to(value, csr.values[from], exponent);
        const auto place = [&](std::uint64_t before) {
          return first_values[tile] + static_cast<std::uint32_t>(__popcll(bitmaps[tile] & before));
        };
        if (to.by_rows.values != nullptr)
          to.by_rows.put(from, place(before_by_rows(row, col)), value);
        if (to.by_cols.values != nullptr)
          to.by_cols.put(from, place(before_by_cols(row, col)), value);
      });
      Block::sync();
    }
    at += tiles;
  }
  if (Block::lane() == 0)
    to.rows[tile_row] = {nonzeros.begin(), static_cast<std::int32_t>(at - nonzeros.begin())};
}

}  // namespace tessera::tile_spgemm
