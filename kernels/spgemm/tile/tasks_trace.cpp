// Instruction counts are those of the machine code for sm_90a (CUDA 13.0).

#include "kernels/spgemm/tile/tasks_trace.hpp"

#include <algorithm>
#include <bit>

#include "kernels/device/shared_banks.hpp"

namespace tessera::tile_spgemm::tracing {

namespace {

constexpr int kStageInstructions = 28, kIdleStageInstructions = 8, kCutInstructions = 22,
              kSearchInstructions = 9;

std::int64_t rounds_of(std::int64_t lanes) { return (lanes + kThreads - 1) / kThreads; }

/// The inner indices of half of a tile of A.
std::uint32_t inner_of_half(std::uint64_t bitmap, int half) {
  return inner_indices(bitmap >> 32 * half & 0xffffffffu);
}

/// Counts the cells of each task.
class CountTrace final : public TaskTrace {
 public:
  using TaskTrace::TaskTrace;

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const TaskWork& work = product_->task_of(thread_block);
    const std::vector<Columns> all = product_->columns_of(work, kColsAtOnce);
    if (cursor.part == 0) {
      begin(thread_block, work, warp, trace);
      if (all.empty()) return finish(thread_block, work, warp, trace);
      cursor = {.step = 0, .part = 1};
      return true;
    }
    const auto [number, batch] = std::pair{cursor.step / kBatches, cursor.step % kBatches};
    const Columns& columns = all[static_cast<std::size_t>(number)];
    if (cursor.part == 1) {
      mark(work.task, columns, kMarkCosts, kMarkInstructions, kRankBeginInstructions,
           kRankInstructions, warp, trace);
      cursor.part = 2;
      return true;
    }
    const std::int64_t first = columns.first_tile + batch * kTilesCounted;
    if (first < columns.last_tile) {
      count(work.task, columns, first, warp, trace);
      ++cursor.step;
      if (first + kTilesCounted < columns.last_tile) return true;
    }
    trace.issue(kNextInstructions);
    trace.barrier();
    load(kTaskBoard, element(at_.tasks, product_->number_of(thread_block), kTaskBytes) + 8, 4,
         trace);
    trace.wait(kTaskBoard);
    if (number + 1 == std::ssize(all)) return finish(thread_block, work, warp, trace);
    cursor = {.step = (number + 1) * kBatches, .part = 1};
    return true;
  }

  std::int64_t barriers(std::int64_t thread_block) const override {
    std::int64_t barriers = 4;
    for (const Columns& columns :
         product_->columns_of(product_->task_of(thread_block), kColsAtOnce))
      barriers +=
          6 + 2 * rounds_of(slots_of(columns)) +
          3 * ((columns.last_tile - columns.first_tile + kTilesCounted - 1) / kTilesCounted);
    return barriers;
  }

 private:
  static constexpr std::int64_t kBatches = std::int64_t{1} << 32;
  static constexpr PairCosts kMarkCosts{
      .each = 26, .bits = 6, .round = 10, .active = 11, .end = 5, .step = 31};
  static constexpr PairCosts kCellCosts{
      .each = 29, .bits = 6, .round = 10, .active = 13, .end = 7, .step = 31};
  static constexpr int kMarkInstructions = 9, kRankBeginInstructions = 26, kRankInstructions = 13;
  static constexpr int kTaskInstructions = 48, kAskInstructions = 9, kNextInstructions = 6;
  static constexpr int kRankOfPairInstructions = 14, kJoinInstructions = 73;
  static constexpr int kCellsInstructions = 32, kTileInstructions = 4, kFinishInstructions = 30,
                       kStoreInstructions = 22;

  void begin(std::int64_t thread_block, const TaskWork& work, int warp, WarpTrace& trace) const {
    ask(kTaskInstructions, kAskInstructions, warp, trace);
    const std::int64_t number = product_->number_of(thread_block);
    const std::uint64_t task = element(at_.tasks, number, kTaskBytes);
    for (const unsigned from : {4u, 14u, 8u, 0u})
      load(kTaskBoard, task + from, from == 14 ? 1 : 4, trace);
    if (warp == 0) trace.shared(1);
    trace.wait(kTaskBoard);
    load(kTaskBoard, element(at_.a.rows, work.task.tile_row, kTileRowBytes), kTileRowBytes, trace);
    trace.wait(kTaskBoard);
  }

  /// A batch's cells.
  void count(const Task& task, const Columns& columns, std::int64_t first, int warp,
             WarpTrace& trace) const {
    const std::int64_t size = std::min<std::int64_t>(columns.last_tile - first, kTilesCounted);
    SlotTrace::clear(size, warp, trace);
    trace.barrier();
    for_pairs(task, columns, kCellCosts, warp, trace, [&](const Pairs& pairs) {
      trace.issue(kRankOfPairInstructions);
      look_up(columns, pairs, trace);
      if (join(task, pairs, first, size, trace)) trace.issue(kJoinInstructions);
    });
    trace.barrier();
    trace.issue(kCellsInstructions);
    // Eight lanes for each tile.
    constexpr int kTilesAtOnce = kThreads / kSide, kTilesOfWarp = 32 / kSide;
    for (std::int64_t tile = std::int64_t{kTilesOfWarp} * warp; tile < size; tile += kTilesAtOnce) {
      trace.issue(kTileInstructions);
      trace.shared(1);
    }
    trace.barrier();
  }

  bool finish(std::int64_t thread_block, const TaskWork& work, int warp, WarpTrace& trace) const {
    trace.issue(kFinishInstructions);
    trace.shared(1);
    trace.shared(1);
    trace.barrier();
    const bool any = std::ranges::any_of(work.cells, [](std::int64_t cells) { return cells > 0; });
    if (any) trace.shared(1);
    trace.barrier();
    if (warp != 0) return false;
    trace.issue(kStoreInstructions);
    trace.shared(1);
    const std::int64_t number = product_->number_of(thread_block);
    trace.store();
    trace.touch(element(at_.cells, kSide * number, 4), 4 * kSide);
    if (!any) return false;
    load(kTaskBoard, element(at_.tasks, number, kTaskBytes), 4, trace);
    trace.wait(kTaskBoard);
    trace.atomic(kSide);
    trace.touch(element(at_.row_lengths, std::int64_t{kSide} * work.task.tile_row, 4), 4 * kSide);
    return false;
  }
};

}  // namespace

void TaskTrace::ask(int instructions, int of_first_warp, int warp, WarpTrace& trace) const {
  trace.pause(kSpecialRegisterCycles);
  trace.issue(instructions);
  if (warp == 0) {
    trace.issue(of_first_warp);
    trace.atomic(1);
    trace.touch(at_.found, 4);
    trace.shared(1);
  }
  trace.barrier();
  trace.shared(1);
  trace.barrier();
}

void TaskTrace::mark(const Task& task, const Columns& columns, const PairCosts& costs, int visit,
                     int rank_begin, int rank_round, int warp, WarpTrace& trace) const {
  SlotTrace::clear(slots_of(columns), warp, trace);
  trace.barrier();
  stage(task, columns, warp, trace);
  for_pairs(task, columns, costs, warp, trace, [&](const Pairs& pairs) {
    Banks looked(8), marked(8);
    for (const Pairs::Pair& pair : pairs) {
      const TileOfC& tile = tile_of_c(pair.of_c);
      looked.add(slot_of(columns, tile.col));
      // Lanes that come at once all find it missing.
      if (pair.step <= tile.first_step) marked.add(slot_of(columns, tile.col));
    }
    trace.issue(visit);
    trace.shared(looked.wavefronts());
    if (!marked.is_empty()) trace.shared(marked.turns());
  });
  trace.barrier();
  trace.issue(rank_begin);
  for (std::int64_t round = 0; round < rounds_of(slots_of(columns)); ++round) {
    trace.issue(rank_round);
    trace.shared(2);
    SlotTrace::before(trace);
    trace.shared(2);
  }
  trace.barrier();
}

void TaskTrace::stage(const Task& task, const Columns& columns, int warp, WarpTrace& trace) const {
  trace.issue(kIdleStageInstructions);
  trace.barrier();
  const std::vector<Factor> factors = product_->factors_of(task, columns);
  const std::int64_t first = 32 * warp,
                     last = std::min<std::int64_t>(first + 32, std::ssize(factors));
  if (first < last) {
    const TiledMatrix &a = product_->a, &b = product_->tiles_of_b();
    trace.issue(kStageInstructions);
    const std::int64_t tile = factors[static_cast<std::size_t>(first)].of_a;
    for (int i = 0; i < 2; ++i)
      load(kFactorBoard, element(at_.a.tiles, tile, kTileBytes), kTileBytes * (last - first),
           trace);
    trace.wait(kFactorBoard);
    trace.load(kFactorBoard);
    std::array<std::vector<std::int64_t>, 64> looked_at;  // by lanes that search, turn by turn
    std::size_t turns = 0;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int32_t row =
          a.tiles[static_cast<std::size_t>(factors[static_cast<std::size_t>(i)].of_a)].col;
      trace.touch(element(at_.b.rows, row, kTileRowBytes), kTileRowBytes);
      if (columns.are_all) continue;
      const TileRow of_b = b.rows[static_cast<std::size_t>(row)];
      std::int64_t begin = of_b.begin;
      std::size_t turn = 0;
      for (const std::int32_t col : {columns.first, columns.end}) {
        std::int64_t end = std::int64_t{of_b.begin} + of_b.count;
        while (begin < end) {
          const std::int64_t middle = begin + (end - begin) / 2;
          looked_at[turn++].push_back(middle);
          if (b.tiles[static_cast<std::size_t>(middle)].col < col)
            begin = middle + 1;
          else
            end = middle;
        }
      }
      turns = std::max(turns, turn);
    }
    trace.wait(kFactorBoard);
    if (!columns.are_all) trace.issue(kCutInstructions);
    for (std::size_t turn = 0; turn < turns; ++turn) {
      trace.issue(kSearchInstructions);
      trace.load(kFactorBoard);
      for (const std::int64_t at : looked_at[turn])
        trace.touch(element(at_.b.tiles, at, kTileBytes) + 12, 4);
      trace.wait(kFactorBoard);
    }
    trace.shared(4);
    trace.shared(4);
  }
  trace.barrier();
}

/// Their columns, then their bitmaps.
void TaskTrace::load_tiles(const std::vector<Factor>& factors, int first, int last, std::int64_t at,
                           int lanes, WarpTrace& trace) const {
  for (int part = 0; part < 2; ++part) {
    trace.load(kTileBoard);
    for (int i = first; i < last; ++i) {
      const Factor& factor = factors[static_cast<std::size_t>(i)];
      const std::int64_t begin = factor.begin + at,
                         count = std::min<std::int64_t>(lanes, factor.end - begin);
      if (count > 0) trace.touch(element(at_.b.tiles, begin, kTileBytes), kTileBytes * count);
    }
  }
}

Pairs TaskTrace::pairs_of(const std::vector<Factor>& factors, int first, int last, std::int64_t at,
                          int bits, const Columns& columns) const {
  const TiledMatrix &a = product_->a, &b = product_->tiles_of_b();
  Pairs found;
  for (int i = first; i < last; ++i) {
    const Factor& factor = factors[static_cast<std::size_t>(i)];
    const std::uint32_t inner =
        inner_indices(a.tiles[static_cast<std::size_t>(factor.of_a)].bitmap);
    const std::int64_t begin = factor.begin + at,
                       end = std::min(begin + (std::int64_t{1} << bits), factor.end);
    auto tile = product_->tiles_of_c.begin() + columns.first_tile;
    const auto last_tile = product_->tiles_of_c.begin() + columns.last_tile;
    for (std::int64_t u = begin; u < end; ++u) {
      const Tile& of_b = b.tiles[static_cast<std::size_t>(u)];
      if ((inner & nonzero_bytes(of_b.bitmap)) == 0) continue;
      tile = std::lower_bound(tile, last_tile, of_b.col,
                              [](const TileOfC& of_c, std::int32_t col) { return of_c.col < col; });
      found.pairs[static_cast<std::size_t>(found.size++)] = {
          i, u, tile - product_->tiles_of_c.begin(), step_of(i, u - factor.begin, bits)};
    }
  }
  return found;
}

void TaskTrace::look_up(const Columns& columns, const Pairs& pairs, WarpTrace& trace) const {
  Banks slots(8);
  for (const Pairs::Pair& pair : pairs) slots.add(slot_of(columns, tile_of_c(pair.of_c).col));
  trace.shared(slots.wavefronts());
}

bool TaskTrace::join(const Task& task, const Pairs& pairs, std::int64_t first, std::int64_t size,
                     WarpTrace& trace) const {
  const TiledMatrix &a = product_->a, &b = product_->tiles_of_b();
  const std::int64_t row = a.rows[static_cast<std::size_t>(task.tile_row)].begin;
  bool any = false;
  for (const int half : {0, 1}) {
    Banks cells;
    for (const Pairs::Pair& pair : pairs) {
      if (pair.of_c < first || pair.of_c >= first + size) continue;
      any = true;
      const std::uint64_t of_a = a.tiles[static_cast<std::size_t>(row + pair.factor)].bitmap;
      if ((inner_of_half(of_a, half) &
           nonzero_bytes(b.tiles[static_cast<std::size_t>(pair.of_b)].bitmap)) != 0)
        cells.add(2 * (pair.of_c - first) + half);
    }
    if (!cells.is_empty()) trace.shared(cells.turns());
  }
  return any;
}

std::shared_ptr<const TaskTrace> trace_counting(std::shared_ptr<const Product> product,
                                                const Addresses& at) {
  return std::make_shared<CountTrace>(std::move(product), at);
}

}  // namespace tessera::tile_spgemm::tracing
