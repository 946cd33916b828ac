// tile_spgemm's tasks: a tile row of C, or where it is the sum of many pairs of tiles, a slice of
// its columns. A thread block takes one task after another; it marks the tile columns of C, whose
// ranks are the places of its tiles, and joins the Boolean products of pairs to C's cells. Both the
// kernel that counts and the one that multiplies do so: that takes less time than to keep what was
// found, of which nobody knows how much it will be. See kernels/spgemm/tile/tile_spgemm.cpp.
#pragma once

#include <climits>
#include <cstdint>

#include "kernels/spgemm/tile/tiles.cuh"

namespace tessera::tile_spgemm {

/// What is found out on the way, zero at first.
struct Found {
  std::uint32_t largest[2];  // magnitudes of A and B, as bits
  std::uint32_t slices;      // wanted beside one task for each tile row; not all may have room
  std::uint32_t cursors[3];  // tasks begun by the kernel that counts, and by both that add up
  std::int32_t longest;      // tiles of a tile row of A
};

struct TasksView {
  std::int32_t tile_rows;
  std::uint32_t most_slices;
  Task* tasks;  // [tile rows + most slices]: all first slices, by tile row, then the others
  std::uint32_t* cells;  // [tasks][8] of C, in each row of a task
  Found* found;

  /// How many there are, and how many beside one for each tile row.
  __device__ std::uint32_t slices() const { return min(found->slices, most_slices); }
  __device__ std::uint32_t count() const {
    return static_cast<std::uint32_t>(tile_rows) + slices();
  }
};

/// Calls visit(task, its number) for this thread block's tasks. `cursor` is the one of this kernel.
template <class Visit>
__device__ void for_tasks(const TasksView& tasks, std::uint32_t* cursor, Visit visit) {
  __shared__ std::uint32_t next;
  const std::uint32_t count = tasks.count(), slices = tasks.slices();
  while (true) {
    if (Block::lane() == 0) next = atomicAdd(cursor, 1u);
    Block::sync();
    const std::uint32_t begun = next;
    Block::sync();
    if (begun >= count) return;
    // Slices first: they take longest.
    const std::uint32_t number = begun < slices ? tasks.tile_rows + begun : begun - slices;
    visit(tasks.tasks[number], number);
  }
}

/// The number of another slice of the task's tile row.
__device__ inline std::uint32_t number_of_slice(const Task& task, std::uint32_t number, int slice) {
  return slice == 0 ? static_cast<std::uint32_t>(task.tile_row) : number + slice - task.slice;
}

/// Makes the tasks, of at most so many pairs where they can be cut: a warp for every tile row of A.
static __global__ void __launch_bounds__(kThreads)
    make_tasks(Grid a, Grid b, long long most_pairs, TasksView to) {
  const std::int64_t tile_row = global_thread() / 32;
  if (tile_row >= to.tile_rows) return;
  const TileRow row = a.rows[tile_row];
  long long pairs = 0;
  std::int32_t first_col = INT_MAX, end_col = 0;
  constexpr int kAhead = 4;  // loads that do not wait for each other
  for (int i = spgemm::lane_of_warp(); i < row.count; i += 32 * kAhead) {
    TileRow of_b[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      of_b[u] =
          i + 32 * u < row.count ? b.rows[a.tiles[row.begin + i + 32 * u].col] : TileRow{0, 0};
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (of_b[u].count == 0) continue;
      pairs += of_b[u].count;
      first_col = min(first_col, b.tiles[of_b[u].begin].col);
      end_col = max(end_col, b.tiles[of_b[u].begin + of_b[u].count - 1].col + 1);
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) pairs += __shfl_xor_sync(kAllLanes, pairs, step);
  first_col = __reduce_min_sync(kAllLanes, first_col);
  end_col = __reduce_max_sync(kAllLanes, end_col);
  if (spgemm::lane_of_warp() != 0) return;
  if (pairs == 0) first_col = end_col = 0;
  atomicMax(&to.found->longest, row.count);
  // Slices begin where slots do.
  const std::int32_t begin = first_col / kColsOfSlot * kColsOfSlot, cols = end_col - begin;
  const std::int32_t slots = (cols + kColsOfSlot - 1) / kColsOfSlot;
  Task* slices_of_row = nullptr;  // but the first
  std::int32_t width = slots_of_slice(slots, pairs, most_pairs);
  if (width < slots) {
    const auto others = static_cast<std::uint32_t>((slots + width - 1) / width - 1);
    const std::uint32_t first = atomicAdd(&to.found->slices, others);
    slices_of_row = to.tasks + to.tile_rows + first;
    if (first + others > to.most_slices) {  // there is no room: the row stays whole
      width = slots;
      for (std::uint32_t i = 0; first + i < to.most_slices; ++i) slices_of_row[i] = {};
    }
  }
  const int slices = width == 0 ? 1 : (slots + width - 1) / width;
  Task task{static_cast<std::int32_t>(tile_row)};
  task.is_sliced = slices > 1;
  task.slots_at_once = static_cast<std::uint32_t>(slots_at_once(slots, pairs, row.count));
  for (int slice = 0; slice < slices; ++slice) {
    task.slice = static_cast<std::uint32_t>(slice);
    task.first_col = begin + slice * width * kColsOfSlot;
    task.end_col = slice + 1 < slices ? task.first_col + width * kColsOfSlot : end_col;
    (slice == 0 ? to.tasks[tile_row] : slices_of_row[slice - 1]) = task;
  }
}

/// A tile of A, and its row of B's tiles, as far as they are in the columns at hand.
struct alignas(16) Factor {
  std::uint64_t bitmap;
  std::uint32_t begin, end;
};

/// The first tile in [begin, end) whose column is not before this one.
__device__ inline std::uint32_t lower_bound(const Tile* tiles, std::uint32_t begin,
                                            std::uint32_t end, std::int32_t col) {
  while (begin < end) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    if (tiles[middle].col < col)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

/// Calls visit(place of the factor, its bitmap, tile of B, its place) for pairs whose product is
/// not empty, some to each thread: as many lanes take a factor as leaves none without.
template <class Visit>
__device__ void for_pairs_of(const Factor* factors, int size, const Tile* tiles_of_b, Visit visit) {
  constexpr int kLeastBits = 3;
  int bits = 5;  // of the number of lanes
  while (bits > kLeastBits && size << bits > kThreads) --bits;
  const int lanes = 1 << bits, lane = Block::lane() & (lanes - 1);
  for (int i = Block::lane() >> bits; i < size; i += kThreads >> bits) {
    const Factor factor = factors[i];
    const std::uint32_t inner = inner_indices(factor.bitmap);
    std::uint32_t at = factor.begin + lane;
    Tile next = at < factor.end ? tiles_of_b[at] : Tile{};
    while (at < factor.end) {
      const Tile tile = next;
      const std::uint32_t place = at;
      at += lanes;
      if (at < factor.end) next = tiles_of_b[at];
      if ((inner & nonzero_bytes(tile.bitmap)) != 0) visit(i, factor.bitmap, tile, place);
    }
  }
}

/// The pairs of a task's tiles of C. The whole thread block calls everything here.
template <int kStaged>
class Pairs {
 public:
  /// `factors` [kStaged] is shared memory.
  __device__ Pairs(const Grid& a, const Grid& b, const Task& task, Factor* factors)
      : a_(a), b_(b), row_(a.rows[task.tile_row]), factors_(factors) {}

  /// Only those in these columns of C from now on; `are_all` where the row has no others.
  __device__ void look_at(std::int32_t first_col, std::int32_t end_col, bool are_all) {
    first_col_ = first_col;
    end_col_ = end_col;
    cuts_ = !are_all;
    staged_ = -1;
  }

  /// How many tiles A's row has, and where.
  __device__ int factors() const { return row_.count; }
  __device__ std::uint32_t begin() const { return row_.begin; }

  __device__ const Tile* tiles_of_b() const { return b_.tiles; }

  /// Calls visit(place of A's tile in its row, its bitmap, tile of B, its place) for pairs of A's
  /// tiles [begin, end) whose product is not empty; begin is a multiple of those staged at once.
  template <class Visit>
  __device__ void each(int begin, int end, Visit visit) {
    for (int first = begin; first < end; first += kStaged) {
      stage(first);
      for_pairs_of(factors_, min(end - first, kStaged), b_.tiles,
                   [&](int i, std::uint64_t of_a, const Tile& of_b, std::uint32_t at) {
                     visit(first + i, of_a, of_b, at);
                   });
    }
    Block::sync();
  }
  template <class Visit>
  __device__ void each(Visit visit) {
    each(0, factors(), visit);
  }

 private:
  /// Has the factors from this one on in shared memory.
  __device__ void stage(int first) {
    if (staged_ == first) return;
    staged_ = first;
    Block::sync();
    for (int i = Block::lane(); i < min(factors() - first, kStaged); i += kThreads) {
      const Tile tile = a_.tiles[row_.begin + first + i];
      const TileRow of_b = b_.rows[tile.col];
      Factor factor{tile.bitmap, of_b.begin, of_b.begin + of_b.count};
      if (cuts_) {
        factor.begin = lower_bound(b_.tiles, factor.begin, factor.end, first_col_);
        factor.end = lower_bound(b_.tiles, factor.begin, factor.end, end_col_);
      }
      factors_[i] = factor;
    }
    Block::sync();
  }

  Grid a_, b_;
  TileRow row_;
  Factor* factors_;
  std::int32_t first_col_ = 0, end_col_ = 0;
  bool cuts_ = false;
  int staged_ = -1;
};

/// Calls visit(first column, columns, tiles of C there) for the columns of a task, so many at a
/// time, whose ranks are then known.
template <int kStaged, class Visit>
__device__ void for_columns(const Task& task, int cols_at_once, Pairs<kStaged>& pairs, Slot* slots,
                            int* scratch, Visit visit) {
  const bool are_all = !task.is_sliced && task.end_col - task.first_col <= cols_at_once;
  for (std::int32_t first = task.first_col; first < task.end_col; first += cols_at_once) {
    const int cols = min(task.end_col - first, cols_at_once);
    pairs.look_at(first, first + cols, are_all);
    clear_slots(slots, cols);
    Block::sync();
    pairs.each([&](int, std::uint64_t, const Tile& of_b, std::uint32_t) {
      mark_col(slots, of_b.col - first);
    });
    const int tiles = spgemm::rank_slots<Block>(slots, (cols + kColsOfSlot - 1) / kColsOfSlot,
                                                scratch, [](int, std::uint32_t, int) {});
    Block::sync();
    visit(first, cols, tiles);
    Block::sync();
  }
}

/// Joins the Boolean product of a pair to the cells of a tile of C, in shared memory:
/// multiply_bitmaps() in the halves that registers and atomics have.
__device__ inline void join_cells(std::uint64_t* cells, std::uint64_t of_a, std::uint64_t of_b) {
  constexpr std::uint32_t kFirstCols = 0x01010101u;
  const auto low = static_cast<std::uint32_t>(of_a), high = static_cast<std::uint32_t>(of_a >> 32);
  std::uint32_t low_cells = 0, high_cells = 0;
#pragma unroll
  for (int inner = 0; inner < kSide; ++inner) {
    const auto row = static_cast<std::uint32_t>(of_b >> kSide * inner) & 0xff;
    low_cells |= (low >> inner & kFirstCols) * row;
    high_cells |= (high >> inner & kFirstCols) * row;
  }
  if (low_cells != 0) atomicOr(half_of(cells, 0), low_cells);
  if (high_cells != 0) atomicOr(half_of(cells, 1), high_cells);
}

/// Counts the cells of each task by rows of C, and of each row. row_lengths [8 tile rows], zero at
/// first.
static __global__ void __launch_bounds__(kThreads)
    count_cells(Grid a, Grid b, TasksView tasks, std::uint32_t* row_lengths) {
  __shared__ Slot slots[kColsAtOnce / kColsOfSlot];
  __shared__ Factor factors[kStaged];
  __shared__ std::uint64_t cells[kTilesCounted];
  __shared__ std::uint32_t totals[kSide];
  __shared__ int scratch[Block::kWarps];
  const int row = Block::lane() % kSide;
  for_tasks(tasks, &tasks.found->cursors[0], [&](const Task& task, std::uint32_t number) {
    if (Block::lane() < kSide) totals[row] = 0;
    std::uint32_t own = 0;
    Pairs<kStaged> pairs(a, b, task, factors);
    for_columns(task, kColsAtOnce, pairs, slots, scratch,
                [&](std::int32_t first_col, int, int tiles) {
                  for (int begin = 0; begin < tiles; begin += kTilesCounted) {
                    const int size = min(tiles - begin, kTilesCounted);
                    for (int i = Block::lane(); i < size; i += kThreads) cells[i] = 0;
                    Block::sync();
                    pairs.each([&](int, std::uint64_t of_a, const Tile& of_b, std::uint32_t) {
                      const int tile = rank_of_col(slots, of_b.col - first_col) - begin;
                      if (tile >= 0 && tile < size) join_cells(cells + tile, of_a, of_b.bitmap);
                    });
                    for (int i = Block::lane() / kSide; i < size; i += kThreads / kSide)
                      own += __popc(static_cast<std::uint32_t>(cells[i] >> kSide * row) & 0xff);
                    Block::sync();
                  }
                });
#pragma unroll
    for (int step = kSide; step < 32; step *= 2) own += __shfl_xor_sync(kAllLanes, own, step);
    Block::sync();
    if (spgemm::lane_of_warp() < kSide && own > 0) atomicAdd(totals + row, own);
    Block::sync();
    if (Block::lane() < kSide) {
      const std::uint32_t total = totals[row];
      tasks.cells[std::int64_t{number} * kSide + row] = total;
      if (total > 0) atomicAdd(row_lengths + std::int64_t{task.tile_row} * kSide + row, total);
    }
  });
}

}  // namespace tessera::tile_spgemm
