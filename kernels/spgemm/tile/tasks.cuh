// tile_spgemm's tasks: a task is a tile row of C or, where that row sums many pairs of tiles, a
// slice of its columns. A thread block processes one task after another: it marks the tile columns
// of C, ranks the marks to place the tiles, and joins the Boolean products of pairs to C's cells.
// The counting kernel and the multiplying kernel both do so. That is faster than keeping the
// result, whose size is unknown in advance. See kernels/spgemm/tile/schedule.hpp and
// kernels/spgemm/tile/tile_spgemm.cpp.
#pragma once

#include <climits>
#include <cstdint>

#include "kernels/spgemm/tile/tiles.cuh"

namespace tessera::tile_spgemm {

/// Totals that the kernels determine; all are zero at first.
struct Totals {
  std::uint32_t largest[2];  // magnitudes of A and B, as bits
  std::uint32_t slices;      // in addition to one task per tile row; some may lack room
  std::uint32_t cursors[3];  // tasks begun by count_cells() and by both make_sums()
  std::int32_t longest;      // the most tiles in a tile row of A
};

struct TasksView {
  std::int32_t tile_rows;
  std::uint32_t most_slices;
  Task* tasks;           // [tile rows + most slices]: the first slices by tile row, then the others
  std::uint32_t* cells;  // [tasks][8] cells of C in each row of a task
  Totals* found;

  /// The number of tasks, and of those in addition to one per tile row.
  __device__ std::uint32_t slices() const { return min(found->slices, most_slices); }
  __device__ std::uint32_t count() const {
    return static_cast<std::uint32_t>(tile_rows) + slices();
  }
};

/// Calls visit(task, its number) for each task of this thread block. `cursor` counts the tasks that
/// this kernel has begun.
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
    const std::uint32_t number =
        number_of_task(begun, static_cast<std::uint32_t>(tasks.tile_rows), slices);
    visit(tasks.tasks[number], number);
  }
}

/// Makes the tasks of MakeTasks::item_of(thread block, warp), of at most `most_pairs` pairs each
/// where the tile row can be cut.
static __global__ void __launch_bounds__(kThreads)
    make_tasks(TileMatrix a, TileMatrix b, long long most_pairs, TasksView to) {
  const std::int64_t tile_row = MakeTasks::item_of(blockIdx.x, threadIdx.x);
  if (tile_row >= to.tile_rows) return;
  const TileRow row = a.rows[tile_row];
  long long pairs = 0;
  std::int32_t first_col = INT_MAX, end_col = 0;
  constexpr int kAhead = MakeTasks::kAhead;
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
  TileRowCut cut(first_col, end_col, pairs, most_pairs);
  Task* further = nullptr;  // slices after the first
  if (cut.is_cut()) {
    const auto count = static_cast<std::uint32_t>(cut.further_slices());
    const std::uint32_t first = atomicAdd(&to.found->slices, count);
    further = to.tasks + to.tile_rows + first;
    if (first + count > to.most_slices) {  // there is no room: the row stays whole
      cut.keep_whole();
      for (std::uint32_t i = 0; first + i < to.most_slices; ++i) further[i] = {};
    }
  }
  const int slices = cut.slices();
  Task task{static_cast<std::int32_t>(tile_row)};
  task.is_sliced = slices > 1;
  task.slots_at_once = static_cast<std::uint32_t>(slots_at_once(cut.slots, pairs, row.count));
  for (int slice = 0; slice < slices; ++slice) {
    cut.place(task, slice, slices);
    (slice == 0 ? to.tasks[tile_row] : further[slice - 1]) = task;
  }
}

/// A tile of A and the tiles [begin, end) of B that it is multiplied by in the current columns.
struct alignas(16) Factor {
  std::uint64_t bitmap;
  std::uint32_t begin, end;
};
static_assert(sizeof(Factor) == kFactorBytes);

/// The first tile in [begin, end) whose column is not before `col`.
__device__ inline std::uint32_t lower_bound(const Tile* tiles, std::uint32_t begin,
                                            std::uint32_t end, std::int32_t col) {
  return first_not_before(begin, end, [&](std::uint32_t tile) { return tiles[tile].col < col; });
}

/// Calls visit(index of the factor, its bitmap, tile of B, its index) for this thread's pairs whose
/// product is not empty.
template <class Visit>
__device__ void for_pairs_of(const Factor* factors, int size, const Tile* tiles_of_b, Visit visit) {
  const FactorLanes share(size);
  const int lanes = share.lanes(), lane = share.first_tile(Block::lane());
  for (int i = share.first_factor(Block::lane()); i < size; i += share.factors_at_once()) {
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

/// The pairs of a task's tiles of C. The whole thread block calls every function.
template <int kStaged>
class Pairs {
 public:
  /// `factors` [kStaged] is shared memory.
  __device__ Pairs(const TileMatrix& a, const TileMatrix& b, const Task& task, Factor* factors)
      : a_(a), b_(b), row_(a.rows[task.tile_row]), factors_(factors) {}

  /// Restricts the pairs to these columns of C.
  __device__ void restrict_to(const ColumnRange& columns) {
    first_col_ = columns.first;
    end_col_ = columns.end;
    cuts_ = !columns.are_all;
    staged_ = -1;
  }

  /// The number of tiles in A's tile row, and the index of the first one.
  __device__ int factors() const { return row_.count; }
  __device__ std::uint32_t begin() const { return row_.begin; }

  __device__ const Tile* tiles_of_b() const { return b_.tiles; }

  /// Calls visit(index of A's tile in its row, its bitmap, tile of B, its index) for pairs of A's
  /// tiles [begin, end) whose product is not empty; begin is a multiple of kStaged.
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
  /// Loads the factors from `first` on into shared memory.
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

  TileMatrix a_, b_;
  TileRow row_;
  Factor* factors_;
  std::int32_t first_col_ = 0, end_col_ = 0;
  bool cuts_ = false;
  int staged_ = -1;
};

/// Ranks `cols_at_once` columns of a task at a time and calls visit(columns, number of tiles of C).
template <int kStaged, class Visit>
__device__ void for_columns(const Task& task, int cols_at_once, Pairs<kStaged>& pairs, Slot* slots,
                            int* scratch, Visit visit) {
  for_column_ranges(task, cols_at_once, [&](const ColumnRange& columns) {
    pairs.restrict_to(columns);
    clear_slots(slots, columns.count());
    Block::sync();
    pairs.each([&](int, std::uint64_t, const Tile& of_b, std::uint32_t) {
      mark_col(slots, of_b.col - columns.first);
    });
    const int tiles = spgemm::rank_slots<Block>(slots, slots_of(columns.count()), scratch,
                                                [](int, std::uint32_t, int) {});
    Block::sync();
    visit(columns, tiles);
    Block::sync();
  });
}

/// Joins the Boolean product of a pair to the cells of a tile of C in shared memory. It is
/// multiply_bitmaps() in halves, as wide as registers and atomic operations.
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

/// Counts the cells of each task in each row of C, and those of each row. row_lengths
/// [8 tile rows] must be zero.
static __global__ void __launch_bounds__(kThreads)
    count_cells(TileMatrix a, TileMatrix b, TasksView tasks, std::uint32_t* row_lengths) {
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
                [&](const ColumnRange& columns, int tiles) {
                  for (int begin = 0; begin < tiles; begin += kTilesCounted) {
                    const int size = min(tiles - begin, kTilesCounted);
                    for (int i = Block::lane(); i < size; i += kThreads) cells[i] = 0;
                    Block::sync();
                    pairs.each([&](int, std::uint64_t of_a, const Tile& of_b, std::uint32_t) {
                      const int tile = rank_of_col(slots, of_b.col - columns.first) - begin;
                      if (tile >= 0 && tile < size) join_cells(cells + tile, of_a, of_b.bitmap);
                    });
                    for (int i = Block::lane() / kSide; i < size; i += CountCells::kTilesAtOnce)
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
