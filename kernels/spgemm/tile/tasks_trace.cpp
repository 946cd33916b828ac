// The warps of make_tasks() and count_cells(), and what those of count_cells() and make_sums() have
// in common.

#include <algorithm>
#include <bit>

#include "kernels/device/shared_banks.hpp"
#include "kernels/spgemm/tile/task_trace.hpp"

namespace tessera::tile_spgemm::tracing {

namespace {

/// A warp for every tile row of A.
class MakeTasksTrace final : public LaunchTrace {
 public:
  MakeTasksTrace(std::shared_ptr<const ProductAnalysis> product, const ArrayAddresses& at)
      : product_(std::move(product)), at_(at) {
    const auto& tasks = product_->tasks;
    slices_.assign(product_->a.tile_rows() + 1, 0);
    for (std::int64_t id = product_->a.tile_rows(); id < std::ssize(tasks); ++id)
      if (tasks[id].task.slice > 0) ++slices_[tasks[id].task.tile_row + 1];
    for (std::size_t row = 1; row < slices_.size(); ++row) slices_[row] += slices_[row - 1];
  }

  bool next(std::int64_t thread_block, int warp, WarpCursor&, WarpTrace& trace) const override {
    const std::int64_t row = MakeTasks::item_of(thread_block, kWarpSize * warp);
    Warp w{trace, warp};
    w.issue(Counted::kBegin);
    trace.pause(kSpecialRegisterCycles);
    if (row >= product_->a.tile_rows()) return false;
    const TileRow of_a = product_->a.rows[row];
    w.load_and_wait(kLoadBoard, at_.a.row(row), kTileRowBytes);
    for (std::int64_t first = 0; first < of_a.count; first += kWarpSize * MakeTasks::kAhead)
      add_tiles(of_a, first, w);
    w.shared(2, 5);  // shuffles
    w.issue(Counted::kReduce + Counted::kCut);
    w.add_atomically(1, at_.found, 4);
    store_tasks(row, w);
    return false;
  }

 private:
  using Counted = CountedMakeTasks;
  static constexpr int kLoadBoard = 0;

  /// Adds up the tiles of B that tiles of A select, and finds their columns.
  void add_tiles(const TileRow& of_a, std::int64_t first, Warp& w) const {
    const TiledMatrix &a = product_->a, &b = product_->tiles_of_b();
    w.issue(Counted::kRound);
    const auto for_own = [&](auto visit) {
      for (std::int64_t u = 0; u < MakeTasks::kAhead; ++u) {
        const std::int64_t begin = first + kWarpSize * u,
                           end = std::min<std::int64_t>(begin + kWarpSize, of_a.count);
        if (begin >= end) continue;
        w.trace.load(kLoadBoard);
        for (std::int64_t i = begin; i < end; ++i) visit(of_a.begin + i);
      }
      w.wait(kLoadBoard);
    };
    for_own([&](std::int64_t tile) { w.trace.touch(at_.a.col_of_tile(tile), 4); });
    for_own([&](std::int64_t tile) { w.trace.touch(at_.b.row(a.tiles[tile].col), kTileRowBytes); });
    for (const bool is_last : {false, true})
      for_own([&](std::int64_t tile) {
        const TileRow row = b.row_of(a.tiles[tile]);
        if (row.count == 0) return;
        w.trace.touch(at_.b.col_of_tile(std::int64_t{row.begin} + (is_last ? row.count - 1 : 0)),
                      4);
      });
  }

  void store_tasks(std::int64_t row, Warp& w) const {
    const auto store = [&](std::int64_t number) {
      w.issue(Counted::kSlice);
      for (const auto& [from, bytes] : {std::pair{0u, 8}, std::pair{8u, 4}, std::pair{12u, 4}})
        w.store(at_.task(number) + from, bytes);
    };
    if (slices_[row] < slices_[row + 1]) {
      w.issue(Counted::kReserve);
      w.add_atomically(1, at_.found, 4);
    }
    store(row);
    for (std::int64_t slice = slices_[row]; slice < slices_[row + 1]; ++slice)
      store(product_->a.tile_rows() + slice);
  }

  std::shared_ptr<const ProductAnalysis> product_;
  ArrayAddresses at_;
  std::vector<std::int64_t> slices_;  // [tile rows + 1] further slices of the rows before
};

class CountTrace final : public TaskTrace {
 public:
  using TaskTrace::TaskTrace;

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const TaskWork& work = product_->task_of(thread_block);
    const std::vector<TaskColumns> all = product_->columns_of(work, kColsAtOnce);
    Warp w{trace, warp};
    if (cursor.part == 0) {
      begin(thread_block, work, w);
      if (all.empty()) return finish(thread_block, work, w);
      cursor = {.step = 0, .part = 1};
      return true;
    }
    const auto [number, batch] = std::pair{cursor.step / kBatches, cursor.step % kBatches};
    const TaskColumns& columns = all[number];
    if (cursor.part == 1) {
      mark(work.task, columns, Counted::kMarks, w);
      cursor.part = 2;
      return true;
    }
    const std::int64_t first = columns.first_tile + batch * kTilesCounted;
    if (first < columns.last_tile) {
      count(work.task, columns, first, w);
      ++cursor.step;
      if (first + kTilesCounted < columns.last_tile) return true;
    }
    end_columns(Counted::kColumns, thread_block, w);
    if (number + 1 == std::ssize(all)) return finish(thread_block, work, w);
    cursor = {.step = (number + 1) * kBatches, .part = 1};
    return true;
  }

  std::int64_t barriers(std::int64_t thread_block) const override {
    std::int64_t barriers = kTaskBarriers + 2;
    for (const TaskColumns& columns :
         product_->columns_of(product_->task_of(thread_block), kColsAtOnce))
      barriers +=
          barriers_of_columns(columns) + 3 * rounds<std::int64_t>(columns.tiles(), kTilesCounted);
    return barriers;
  }

 private:
  using Counted = CountedCountCells;
  static constexpr std::int64_t kBatches = std::int64_t{1} << 32;

  void begin(std::int64_t thread_block, const TaskWork& work, Warp& w) const {
    take_task(Counted::kTask, Counted::kNextTask, w);
    const std::uint64_t task = at_.task(product_->number_of(thread_block));
    for (const unsigned from : {4u, 14u, 8u, 0u})
      w.load(kTaskBoard, task + from, from == 14 ? 1 : 4);
    if (w.number == 0) w.shared(1);
    w.wait(kTaskBoard);
    load_tile_row(work, w);
  }

  /// Counts the cells of a batch of tiles.
  void count(const Task& task, const TaskColumns& columns, std::int64_t first, Warp& w) const {
    const std::int64_t size = std::min<std::int64_t>(columns.last_tile - first, kTilesCounted);
    w.clear(size);
    w.barrier();
    for_pairs(task, columns, Counted::kCells, w, [&](const Pairs& pairs) {
      w.issue(Counted::kRank);
      read_ranks(columns, pairs, w);
      if (join(task, pairs, first, size, w)) w.issue(Counted::kJoin);
    });
    w.barrier();
    w.issue(Counted::kCount);
    for (std::int64_t tile = std::int64_t{CountCells::kTilesOfWarp} * w.number; tile < size;
         tile += CountCells::kTilesAtOnce) {
      w.issue(Counted::kTile);
      w.shared(1);
    }
    w.barrier();
  }

  bool finish(std::int64_t thread_block, const TaskWork& work, Warp& w) const {
    w.issue(Counted::kFinish);
    w.shared(1, 2);
    w.barrier();
    const bool any = std::ranges::any_of(work.cells, [](std::int64_t cells) { return cells > 0; });
    if (any) w.shared(1);
    w.barrier();
    if (w.number != 0) return false;
    w.issue(Counted::kStore);
    w.shared(1);
    const std::int64_t number = product_->number_of(thread_block);
    w.store(at_.cells_of(number), 4 * kSide);
    if (!any) return false;
    w.load_and_wait(kTaskBoard, at_.task(number), 4);
    w.add_atomically(kSide, at_.lengths_of(work.task.tile_row), 4 * kSide);
    return false;
  }
};

}  // namespace

void TaskTrace::take_task(int instructions, int of_first_warp, Warp& w) const {
  w.trace.pause(kSpecialRegisterCycles);
  w.issue(instructions);
  if (w.number == 0) {
    w.issue(of_first_warp);
    w.add_atomically(1, at_.found, 4);
    w.shared(1);
  }
  w.barrier();
  w.shared(1);
  w.barrier();
}

void TaskTrace::end_columns(int instructions, std::int64_t thread_block, Warp& w) const {
  w.issue(instructions);
  w.barrier();
  w.load_and_wait(kTaskBoard, at_.task(product_->number_of(thread_block)) + 8, 4);
}

void TaskTrace::mark(const Task& task, const TaskColumns& columns, const CountedMarks& counted,
                     Warp& w) const {
  w.clear(columns.slots());
  w.barrier();
  load_factors(task, columns, w);
  for_pairs(task, columns, counted.pairs, w, [&](const Pairs& pairs) {
    Banks read(8), marked(8);
    for (const Pairs::Pair& pair : pairs) {
      const TileOfC& tile = tile_of_c(pair.of_c);
      read.add(columns.slot_of(tile.col));
      // Lanes that look at a slot at once all find its mark missing.
      if (pair.step <= tile.first_step) marked.add(columns.slot_of(tile.col));
    }
    w.issue(counted.mark);
    w.shared(read.wavefronts());
    if (!marked.is_empty()) w.shared(marked.turns());
  });
  w.barrier();
  w.issue(counted.rank_begin);
  for (std::int64_t round = 0; round < rounds<std::int64_t>(columns.slots(), kThreads); ++round) {
    w.issue(counted.rank_round);
    w.shared(2);
    w.prefix_sum();
    w.shared(2);
  }
  w.barrier();
}

/// Factors move to shared memory; their tiles of B are searched where the columns are not all.
void TaskTrace::load_factors(const Task& task, const TaskColumns& columns, Warp& w) const {
  w.issue(CountedFactors::kBegin);
  w.barrier();
  const std::vector<FactorTiles> factors = product_->factors_of(task, columns);
  const std::int64_t first = w.first_thread(),
                     last = std::min<std::int64_t>(first + kWarpSize, std::ssize(factors));
  if (first < last) {
    const TiledMatrix &a = product_->a, &b = product_->tiles_of_b();
    w.issue(CountedFactors::kLoad);
    for (int i = 0; i < 2; ++i)
      w.load(kFactorBoard, at_.a.tile(factors[first].of_a), kTileBytes * (last - first));
    w.wait(kFactorBoard);
    w.trace.load(kFactorBoard);
    std::array<std::vector<std::int64_t>, 64> read;  // tiles that lanes read, by steps of searches
    std::size_t steps = 0;
    for (std::int64_t i = first; i < last; ++i) {
      const Tile& of_a = a.tiles[factors[i].of_a];
      w.trace.touch(at_.b.row(of_a.col), kTileRowBytes);
      if (columns.are_all) continue;
      const TileRow& row = b.row_of(of_a);
      std::size_t step = 0;
      const auto find = [&](std::int64_t begin, std::int32_t col) {
        return b.find(begin, std::int64_t{row.begin} + row.count, col,
                      [&](std::int64_t tile) { read[step++].push_back(tile); });
      };
      find(find(row.begin, columns.first), columns.end);
      steps = std::max(steps, step);
    }
    w.wait(kFactorBoard);
    if (!columns.are_all) w.issue(CountedFactors::kCut);
    for (std::size_t step = 0; step < steps; ++step) {
      w.issue(CountedFactors::kSearch);
      w.trace.load(kFactorBoard);
      for (const std::int64_t tile : read[step]) w.trace.touch(at_.b.col_of_tile(tile), 4);
      w.wait(kFactorBoard);
    }
    w.shared(4, 2);
  }
  w.barrier();
}

/// Loads the columns of tiles, then their bitmaps.
void TaskTrace::load_tiles(std::span<const FactorTiles> factors, std::int64_t at, int lanes,
                           Warp& w) const {
  for (int part = 0; part < 2; ++part) {
    w.trace.load(kTileBoard);
    for (const FactorTiles& factor : factors) {
      const std::int64_t begin = factor.begin + at,
                         count = std::min<std::int64_t>(lanes, factor.end - begin);
      if (count > 0) w.trace.touch(at_.b.tile(begin), kTileBytes * count);
    }
  }
}

Pairs TaskTrace::pairs_of(std::span<const FactorTiles> factors, int first, std::int64_t at,
                          const FactorLanes& share, const TaskColumns& columns) const {
  const TiledMatrix& b = product_->tiles_of_b();
  Pairs found;
  for (int i = 0; i < static_cast<int>(std::ssize(factors)); ++i) {
    const FactorTiles& factor = factors[i];
    const std::uint32_t inner = product_->a.inner_indices_of(factor.of_a);
    const std::int64_t begin = factor.begin + at, end = std::min(begin + share.lanes(), factor.end);
    std::int64_t of_c = columns.first_tile;
    for (std::int64_t of_b = begin; of_b < end; ++of_b) {
      const Tile& tile = b.tiles[of_b];
      if ((inner & nonzero_bytes(tile.bitmap)) == 0) continue;
      of_c = first_not_before(of_c, columns.last_tile,
                              [&](std::int64_t c) { return tile_of_c(c).col < tile.col; });
      found.pairs[found.size++] = {first + i, of_b, of_c,
                                   share.step_of(first + i, of_b - factor.begin)};
    }
  }
  return found;
}

void TaskTrace::read_ranks(const TaskColumns& columns, const Pairs& pairs, Warp& w) const {
  Banks slots(8);
  for (const Pairs::Pair& pair : pairs) slots.add(columns.slot_of(tile_of_c(pair.of_c).col));
  w.shared(slots.wavefronts());
}

bool TaskTrace::join(const Task& task, const Pairs& pairs, std::int64_t first, std::int64_t size,
                     Warp& w) const {
  const TiledMatrix &a = product_->a, &b = product_->tiles_of_b();
  const std::int64_t row = product_->row_of_a(task).begin;
  bool any = false;
  for (const int half : {0, 1}) {
    Banks cells;
    for (const Pairs::Pair& pair : pairs) {
      if (pair.of_c < first || pair.of_c >= first + size) continue;
      any = true;
      const std::uint64_t of_a = a.tiles[row + pair.factor].bitmap >> 32 * half & 0xffffffffu;
      if ((inner_indices(of_a) & nonzero_bytes(b.tiles[pair.of_b].bitmap)) != 0)
        cells.add(2 * (pair.of_c - first) + half);
    }
    if (!cells.is_empty()) w.shared(cells.turns());
  }
  return any;
}

std::shared_ptr<const LaunchTrace> trace_make_tasks(std::shared_ptr<const ProductAnalysis> product,
                                                    const ArrayAddresses& at) {
  return std::make_shared<MakeTasksTrace>(std::move(product), at);
}

std::shared_ptr<const TaskLaunch> trace_count_cells(std::shared_ptr<const ProductAnalysis> product,
                                                    const ArrayAddresses& at) {
  return std::make_shared<CountTrace>(std::move(product), at);
}

}  // namespace tessera::tile_spgemm::tracing
