// The kernels of tSparse's pipeline: they list the tasks, find the cells and values of C and
// compact them. See kernels/spgemm/tsparse/schedule.hpp for the assignment of work, and
// kernels/spgemm/tsparse/tsparse.cpp for the method.
#pragma once

#include <cstdint>

#include "kernels/spgemm/tsparse/schedule.hpp"
#include "kernels/spgemm/tsparse/tsparse.hpp"
#include "kernels/tensor_core/mma.cuh"

namespace tessera::tsparse {

constexpr unsigned kAllLanes = 0xffffffff;

/// A matrix on the device; Value is float, or std::uint16_t for FP16.
template <class Value>
struct TilesView {
  const Tile* __restrict__ tiles;
  const std::uint32_t* __restrict__ row_begin;  // [tile rows + 1]
  const Value* __restrict__ values;
};

__device__ inline std::int64_t global_thread() { return number_of_thread(blockIdx.x, threadIdx.x); }

/// The bits of a tile before this one.
__device__ inline std::uint64_t bits_before(std::uint64_t bitmap, int bit) {
  return bitmap & ((std::uint64_t{1} << bit) - 1);
}

__device__ inline std::uint32_t place_of(const Tile& tile, int bit) {
  return tile.first_value + static_cast<std::uint32_t>(__popcll(bits_before(tile.bitmap, bit)));
}

__device__ inline std::uint64_t shuffle(std::uint64_t value, int lane, int width) {
  return __shfl_sync(kAllLanes, static_cast<unsigned long long>(value), lane, width);
}

/// Counts the products of each tile of A. counts [tiles + 1] ends with 0.
__global__ void count_tasks(std::int64_t tiles, const Tile* __restrict__ a,
                            const Tile* __restrict__ b,
                            const std::uint32_t* __restrict__ b_row_begin, std::int64_t* counts) {
  const std::int64_t tile = ListTasks::item_of(blockIdx.x, threadIdx.x);
  if (tile == tiles && threadIdx.x % 32 == 0) counts[tile] = 0;
  if (tile >= tiles) return;
  const Tile of_a = a[tile];
  const std::uint32_t inner = inner_indices(of_a.bitmap);
  const std::uint32_t end = b_row_begin[of_a.col + 1];
  std::uint32_t count = 0;
#pragma unroll 4
  for (std::uint32_t t = b_row_begin[of_a.col] + threadIdx.x % 32; t < end; t += 32)
    count += (inner & inner_indices(b[t].bitmap)) != 0 ? 1 : 0;
  __syncwarp();
  count = __reduce_add_sync(kAllLanes, count);
  if (threadIdx.x % 32 == 0) counts[tile] = count;
}

/// Picks the prefix sums at tile rows: first_of_row[i] = first_task[row_begin[i]]. [rows + 1]
__global__ void pick_rows(std::int64_t rows, const std::uint32_t* __restrict__ row_begin,
                          const std::int64_t* __restrict__ first_task, std::int64_t* first_of_row) {
  const std::int64_t row = global_thread();
  if (row <= rows) first_of_row[row] = first_task[row_begin[row]];
}

/// The tiles [begin, end) of A, whose tasks are listed together.
struct SliceOfA {
  std::int64_t begin, end;
  std::int32_t first_row;
  int col_bits;  // of the tile column in a key; the tile row - first_row lies above it
  std::int64_t first_task;
};

/// Lists the products and their tiles of C. The products of a tile of A are neighbours, in the
/// order of B's tiles.
template <class Key>
__global__ void list_tasks(SliceOfA slice, const Tile* __restrict__ a,
                           const std::int32_t* __restrict__ row_of_a, const Tile* __restrict__ b,
                           const std::uint32_t* __restrict__ b_row_begin,
                           const std::int64_t* __restrict__ first_task, Key* __restrict__ keys,
                           TileTask* __restrict__ tasks) {
  const std::int64_t tile = slice.begin + ListTasks::item_of(blockIdx.x, threadIdx.x);
  if (tile >= slice.end) return;
  const unsigned lane = threadIdx.x % 32;
  const Tile of_a = a[tile];
  const std::uint32_t inner = inner_indices(of_a.bitmap);
  const Key row = static_cast<Key>(row_of_a[tile] - slice.first_row) << slice.col_bits;
  std::int64_t at = first_task[tile] - slice.first_task;
  const std::uint32_t end = b_row_begin[of_a.col + 1];
  for (std::uint32_t begin = b_row_begin[of_a.col]; begin < end; begin += 32) {
    const std::uint32_t t = begin + lane;
    const Tile of_b = t < end ? b[t] : Tile{0, 0, 0};
    const bool stays = (inner & inner_indices(of_b.bitmap)) != 0;
    const unsigned all = __ballot_sync(kAllLanes, stays);
    if (stays) {
      const std::int64_t place = at + __popc(all & ((1u << lane) - 1));
      keys[place] = row | static_cast<Key>(of_b.col);
      tasks[place] = {static_cast<std::uint32_t>(tile), t};
    }
    at += __popc(all);
  }
}

/// True for a sorted task that is the first of its tile of C.
template <class Key>
struct IsHead {
  const Key* keys;
  __host__ __device__ bool operator()(std::uint32_t task) const {
    return task == 0 || keys[task] != keys[task - 1];
  }
};

/// The sorted tasks of a slice, by tile of C.
struct TaskList {
  const TileTask* __restrict__ tasks;
  const std::uint32_t* __restrict__ heads;  // [tiles] first task of each tile
  std::int64_t tiles;
  std::uint32_t num_tasks;

  struct Range {
    std::uint32_t begin, length;
  };
  /// Returns an empty range for a tile beyond the last.
  __device__ Range of_tile(std::int64_t tile) const {
    if (tile >= tiles) return {0, 0};
    const std::uint32_t begin = heads[tile];
    return {begin, (tile + 1 < tiles ? heads[tile + 1] : num_tasks) - begin};
  }
};

/// The tiles of C: arrays [tiles], first_value [tiles + 1].
struct ViewOfC {
  std::int32_t* __restrict__ tile_row;
  std::int32_t* __restrict__ tile_col;
  std::uint64_t* __restrict__ bitmap;
  std::int64_t* __restrict__ first_value;
  float* __restrict__ values;
};

/// Finds the rows, columns and cells of the tiles of C. first_value receives the numbers of cells,
/// and 0 at the end.
template <class Key>
__global__ void count_cells(TaskList list, SliceOfA slice, const Key* __restrict__ keys,
                            const Tile* __restrict__ a, const Tile* __restrict__ b, ViewOfC c) {
  const std::int64_t tile = CountCells::item_of(blockIdx.x, threadIdx.x);
  const int lane = threadIdx.x % kSide;
  const TaskList::Range range = list.of_tile(tile);
  const std::uint32_t longest = __reduce_max_sync(kAllLanes, range.length);
  std::uint64_t bytes = 0;
  for (std::uint32_t begin = 0; begin < longest; begin += kSide) {
    std::uint64_t of_a = 0, of_b = 0;
    if (begin + lane < range.length) {
      const TileTask task = list.tasks[range.begin + begin + lane];
      of_a = a[task.a].bitmap;
      of_b = b[task.b].bitmap;
    }
    const auto steps = static_cast<int>(min(longest - begin, std::uint32_t{kSide}));
    for (int s = 0; s < steps; ++s)
      bytes |= products_of_row(shuffle(of_a, s, kSide), shuffle(of_b, s, kSide), lane);
  }
  std::uint64_t cells = std::uint64_t{nonzero_bytes(bytes)} << kSide * lane;
  for (int other = 1; other < kSide; other *= 2)
    cells |= __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(cells), other);
  if (lane != 0 || tile > list.tiles) return;
  if (tile == list.tiles) {
    c.first_value[tile] = 0;
    return;
  }
  const Key key = keys[range.begin];
  c.tile_row[tile] = slice.first_row + static_cast<std::int32_t>(key >> slice.col_bits);
  c.tile_col[tile] = static_cast<std::int32_t>(key & ((Key{1} << slice.col_bits) - 1));
  c.bitmap[tile] = cells;
  c.first_value[tile] = __popcll(cells);
}

/// The factors of the sums.
struct Finish {
  double factor;  // undoes the operands' scaling
  float alpha;
};

/// Writes those of kCells neighbouring cells, from `first` on, that the bitmap of the tile
/// contains. Returns the bits of the cells that are not zero.
template <int kCells>
__device__ std::uint64_t store_cells(const float* sums, std::uint64_t bitmap, int first,
                                     float* __restrict__ values_of_tile, const Finish& finish) {
  float* to = values_of_tile + __popcll(bits_before(bitmap, first));
  std::uint64_t nonzero = 0;
#pragma unroll
  for (int i = 0; i < kCells; ++i) {
    if ((bitmap >> (first + i) & 1) == 0) continue;
    const float value = unscaled(sums[i], finish.factor);
    *to++ = finish.alpha == 1 ? value : finish.alpha * value;
    if (value != 0) nonzero |= std::uint64_t{1} << (first + i);
  }
  return nonzero;
}

/// The OR over the lanes of a warp.
__device__ inline std::uint64_t join(std::uint64_t bits) {
  const unsigned low = __reduce_or_sync(kAllLanes, static_cast<unsigned>(bits));
  const unsigned high = __reduce_or_sync(kAllLanes, static_cast<unsigned>(bits >> 32));
  return std::uint64_t{high} << 32 | low;
}

/// The cells of a warp's two tiles that are not zero, where zeros are dropped. *zeros becomes 1 if
/// there is a zero.
struct Kept {
  std::uint64_t* __restrict__ bitmap;  // [tiles]; nullptr where zeros stay
  unsigned* zeros;

  __device__ void note(std::int64_t tile, std::int64_t tiles, std::uint64_t bits,
                       std::uint64_t pattern) const {
    if (bitmap == nullptr) return;
    const std::uint64_t nonzero = join(bits);
    if (threadIdx.x % 32 == 0 && tile < tiles) write(tile, nonzero, pattern);
  }
  /// The same for a tile's whole bitmap, by one thread.
  __device__ void write(std::int64_t tile, std::uint64_t nonzero, std::uint64_t pattern) const {
    bitmap[tile] = nonzero;
    if (nonzero != pattern) atomicOr(zeros, 1u);
  }
};

constexpr int kBatch = MultiplyTiles::kBatch;

/// The tiles that a task multiplies.
struct Operands {
  Tile a, b;
};

/// Loads the tiles of task i, or empty tiles past the end.
template <class Value>
__device__ Operands fetch(const TaskList& list, const TaskList::Range& range, std::uint32_t i,
                          const TilesView<Value>& a, const TilesView<Value>& b) {
  if (i >= range.length) return {{0, 0, 0}, {0, 0, 0}};
  const TileTask task = list.tasks[range.begin + i];
  return {a.tiles[task.a], b.tiles[task.b]};
}

/// Returns a lane's two neighbouring values of a tile, as a register of a fragment: in row lane / 4
/// of A, or column lane / 4 of B, at depths 2 (lane % 4) and 2 (lane % 4) + 1.
__device__ inline std::uint32_t fragment_of(const Tile& tile,
                                            const std::uint16_t* __restrict__ values, int lane) {
  const auto bits = static_cast<std::uint32_t>(tile.bitmap >> 2 * lane) & 3;
  const std::uint32_t place = place_of(tile, 2 * lane);
  const std::uint32_t low = (bits & 1) != 0 ? values[place] : 0;
  const std::uint32_t high = (bits & 2) != 0 ? values[place + (bits & 1)] : 0;
  return low | high << 16;
}

/// The sums of a warp's two tiles of C by MMAs, with A's tiles on the diagonal and B's tiles above
/// each other. A lane holds cells 2 lane and 2 lane + 1 of the first tile and of the second.
struct OnTensorCores {
  using Value = std::uint16_t;
  float sums[4] = {0, 0, 0, 0};

  /// Adds one task of the first tile and one of the second.
  __device__ void add(const Operands* first, const Value* __restrict__ a,
                      const Value* __restrict__ b) {
    const int lane = threadIdx.x % 32;
    const Operands x0 = first[0], x1 = first[kBatch];
    const std::uint32_t of_a[4] = {fragment_of(x0.a, a, lane), 0, 0, fragment_of(x1.a, a, lane)};
    const std::uint32_t of_b[2] = {fragment_of(x0.b, b, lane), fragment_of(x1.b, b, lane)};
    mma_m16n8k16_fp16(sums, of_a, of_b);
  }

  __device__ void store(const std::int64_t tile, std::int64_t tiles, const ViewOfC& c,
                        const Finish& finish, const Kept& kept) const {
    const int cell = threadIdx.x % 32 * 2;
    for (int half = 0; half < 2; ++half) {
      const std::int64_t at = tile + half;
      const std::uint64_t pattern = at < tiles ? c.bitmap[at] : 0;
      float* values = at < tiles ? c.values + c.first_value[at] : nullptr;
      const std::uint64_t nonzero =
          pattern == 0 ? 0 : store_cells<2>(sums + 2 * half, pattern, cell, values, finish);
      kept.note(at, tiles, nonzero, pattern);
    }
  }
};

/// The sums by fused multiply-adds. Half a warp makes each of the two tiles, a lane four cells of a
/// row.
struct OnScalarCores {
  using Value = float;
  float sums[4] = {0, 0, 0, 0};

  __device__ static int first_cell() { return threadIdx.x % kBatch * 4; }

  __device__ void add(const Operands* first, const Value* __restrict__ a,
                      const Value* __restrict__ b) {
    const auto [of_a, of_b] = first[threadIdx.x % 32 / kBatch * kBatch];
    const int row_bit = first_cell() / kSide * kSide;
    const auto row = static_cast<std::uint32_t>(of_a.bitmap >> row_bit) & 0xff;
    if (row == 0) return;
    const Value* row_values = a + place_of(of_a, row_bit);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int col_bit = (first_cell() % kSide + i) * kSide;
      const auto col = static_cast<std::uint32_t>(of_b.bitmap >> col_bit) & 0xff;
      const Value* col_values = b + place_of(of_b, col_bit);
      for (std::uint32_t both = row & col; both != 0; both &= both - 1) {
        const std::uint32_t before = (both & (0 - both)) - 1;
        sums[i] = fmaf(row_values[__popc(row & before)], col_values[__popc(col & before)], sums[i]);
      }
    }
  }

  __device__ void store(const std::int64_t tile, std::int64_t tiles, const ViewOfC& c,
                        const Finish& finish, const Kept& kept) const {
    const int half = threadIdx.x % 32 / kBatch;
    const std::int64_t own = tile + half;
    const std::uint64_t pattern = own < tiles ? c.bitmap[own] : 0;
    float* values = own < tiles ? c.values + c.first_value[own] : nullptr;
    const std::uint64_t nonzero =
        pattern == 0 ? 0 : store_cells<4>(sums, pattern, first_cell(), values, finish);
    kept.note(tile, tiles, half == 0 ? nonzero : 0, shuffle(pattern, 0, 32));
    kept.note(tile + 1, tiles, half == 1 ? nonzero : 0, shuffle(pattern, kBatch, 32));
  }
};

/// Multiplies the tasks of two tiles of C in each warp.
template <class Cores>
__global__ void __launch_bounds__(kThreads)
    multiply_tiles(TaskList list, TilesView<typename Cores::Value> a,
                   TilesView<typename Cores::Value> b, ViewOfC c, Finish finish, Kept kept) {
  const std::int64_t tile = MultiplyTiles::item_of(blockIdx.x, threadIdx.x);
  if (tile >= list.tiles) return;
  const int lane = threadIdx.x % 32;
  __shared__ Operands all_batches[kThreads];  // [warps][2 tiles][kBatch]
  Operands* batch = all_batches + (threadIdx.x - lane);
  const TaskList::Range range = list.of_tile(tile + lane / kBatch);
  const std::uint32_t longest = __reduce_max_sync(kAllLanes, range.length);
  Cores cores;
  for (std::uint32_t begin = 0; begin < longest; begin += kBatch) {
    __syncwarp();
    batch[lane] = fetch(list, range, begin + lane % kBatch, a, b);
    __syncwarp();
    const auto steps = static_cast<int>(min(longest - begin, std::uint32_t{kBatch}));
#pragma unroll 2
    for (int s = 0; s < steps; ++s) cores.add(batch + s, a.values, b.values);
  }
  __syncwarp();
  cores.store(tile, list.tiles, c, finish, kept);
}

/// Counts the remaining cells of each tile; `stays` is 1 for a tile with cells. Both end with 0.
/// [tiles + 1]
__global__ void count_kept(std::int64_t tiles, const std::uint64_t* __restrict__ kept,
                           std::int64_t* cells, std::int64_t* stays) {
  const std::int64_t tile = global_thread();
  if (tile > tiles) return;
  const std::uint64_t bitmap = tile < tiles ? kept[tile] : 0;
  cells[tile] = __popcll(bitmap);
  stays[tile] = bitmap != 0 ? 1 : 0;
}

/// Copies the tiles and cells without zeros. first_value and place [tiles + 1] are the prefix sums
/// of the counts of count_kept().
__global__ void compact(std::int64_t tiles, ViewOfC from, const std::uint64_t* __restrict__ kept,
                        const std::int64_t* __restrict__ first_value,
                        const std::int64_t* __restrict__ place, ViewOfC to) {
  const std::int64_t tile = CountCells::item_of(blockIdx.x, threadIdx.x);
  if (tile >= tiles) return;
  const int lane = threadIdx.x % kSide;
  const std::uint64_t before = from.bitmap[tile], after = kept[tile];
  if (tile + 1 == tiles && lane == 0) to.first_value[place[tiles]] = first_value[tiles];
  if (after == 0) return;
  const float* values = from.values + from.first_value[tile];
  float* to_values = to.values + first_value[tile] + __popcll(bits_before(after, kSide * lane));
  for (int bit = kSide * lane; bit < kSide * (lane + 1); ++bit)
    if ((after >> bit & 1) != 0) *to_values++ = values[__popcll(bits_before(before, bit))];
  if (lane != 0) return;
  const std::int64_t at = place[tile];
  to.tile_row[at] = from.tile_row[tile];
  to.tile_col[at] = from.tile_col[tile];
  to.bitmap[at] = after;
  to.first_value[at] = first_value[tile];
}

}  // namespace tessera::tsparse
