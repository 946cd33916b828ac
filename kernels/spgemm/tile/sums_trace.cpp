// make_sums() for short tile rows of A. Instruction counts are those of the machine code for sm_90a
// (CUDA 13.0).

#include <algorithm>
#include <bit>

#include "kernels/device/shared_banks.hpp"
#include "kernels/spgemm/tile/pass_trace.hpp"

namespace tessera::tile_spgemm::tracing {

namespace {

constexpr PairCosts kMarkCosts{
    .each = 29, .bits = 6, .round = 9, .active = 11, .end = 2, .step = 31};
constexpr PairCosts kCellCosts{
    .each = 21, .bits = 6, .round = 14, .active = 11, .end = 8, .step = 31};
constexpr PairCosts kListCosts{
    .each = 25, .bits = 6, .round = 10, .active = 13, .end = 8, .step = 32};
constexpr int kAskInstructions = 9, kTaskInstructions = 20, kRowInstructions = 17,
              kSlicesInstructions = 12, kSliceInstructions = 6, kColumnsInstructions = 12;
constexpr int kValuesInstructions = 21, kOneTileInstructions = 18, kFourTilesInstructions = 62;
constexpr int kMarkInstructions = 9, kRankBeginInstructions = 22, kRankInstructions = 11;
constexpr int kPassInstructions = 8, kRankOfPairInstructions = 14, kJoinInstructions = 82;
constexpr int kColsInstructions = 6, kSlotInstructions = 11, kColInstructions = 13,
              kOtherColInstructions = 9;
constexpr int kPlaceInstructions = 45, kCellsInstructions = 43, kTileCellsInstructions = 4,
              kTilePlaceInstructions = 6, kOtherWarpsInstructions = 10;
constexpr int kCountInstructions = 20, kOddInstructions = 12;
constexpr int kListInstructions = 8, kEndOfListInstructions = 9;
constexpr int kMeetInstructions = 15, kListPairInstructions = 14;
constexpr int kEndOfPassInstructions = 12, kRowBeginsInstructions = 9,
              kEndOfColumnsInstructions = 9;

class SumsTrace final : public PassTrace {
 public:
  using PassTrace::PassTrace;

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const TaskWork& work = product_->task_of(thread_block);
    const std::vector<Columns> all = columns_of(work);
    const Place place(cursor.step);
    const auto go_to = [&](Phase phase, const Place& to) {
      cursor = {.step = to.packed(), .part = static_cast<std::int64_t>(phase)};
      return true;
    };
    const auto phase = static_cast<Phase>(cursor.part);
    if (phase == Phase::kBegin) {
      begin(thread_block, work, warp, trace);
      return !all.empty() && go_to(Phase::kMark, {});
    }
    const Columns& columns = all[static_cast<std::size_t>(place.columns)];
    const bool has_tiles = columns.first_tile < columns.last_tile;
    if (phase == Phase::kMark) {
      mark(work.task, columns, kMarkCosts, kMarkInstructions, kRankBeginInstructions,
           kRankInstructions, warp, trace);
      if (has_tiles) return go_to(Phase::kCells, place);
    } else {
      const Pass pass(*product_, columns, place.pass);
      switch (phase) {
        case Phase::kCells:
          find_cells(work.task, columns, pass, warp, trace);
          return go_to(Phase::kList, place);
        case Phase::kList:
          if (place.tile == 0) place_cells(columns, pass, warp, trace);
          list(work.task, columns, pass, place.tile, warp, trace);
          return go_to(Phase::kAdd, place);
        default:
          break;
      }
      add(work, pass, place.tile, warp, trace);
      if (const int end = pass.end_of_list(place.tile); end < pass.size)
        return go_to(Phase::kList, {place.columns, place.pass, end});
      end_pass(warp, trace);
      if (pass.first + pass.size < columns.last_tile)
        return go_to(Phase::kCells, {place.columns, place.pass + 1, 0});
    }
    trace.issue(kEndOfColumnsInstructions);
    trace.barrier();
    load(kTaskBoard, element(at_.tasks, product_->number_of(thread_block), kTaskBytes) + 8, 4,
         trace);
    trace.wait(kTaskBoard);
    return place.columns + 1 < std::ssize(all) && go_to(Phase::kMark, {place.columns + 1, 0, 0});
  }

  std::int64_t barriers(std::int64_t thread_block) const override {
    std::int64_t barriers = 2;
    for (const Columns& columns : columns_of(product_->task_of(thread_block))) {
      barriers += 6 + 2 * ((slots_of(columns) + kThreads - 1) / kThreads);
      for (std::int64_t number = 0; columns.first_tile + number * kTilesOfPass < columns.last_tile;
           ++number) {
        const Pass pass(*product_, columns, number);
        barriers += 7;
        for (int tile = 0; tile < pass.size; tile = pass.end_of_list(tile)) barriers += 2;
      }
    }
    return barriers;
  }

 private:
  enum class Phase : std::int64_t { kBegin, kMark, kCells, kList, kAdd };

  /// How far a task is: columns, pass over their tiles, first tile of a list.
  struct Place {
    Place() = default;
    Place(std::int64_t of_columns, std::int64_t of_pass, int of_tile)
        : columns(of_columns), pass(of_pass), tile(of_tile) {}
    explicit Place(std::int64_t packed)
        : columns(packed >> 40), pass(packed >> 8 & 0xffffffff), tile(packed & 0xff) {}
    std::int64_t packed() const { return columns << 40 | pass << 8 | tile; }

    std::int64_t columns = 0, pass = 0;
    int tile = 0;
  };

  std::vector<Columns> columns_of(const TaskWork& work) const {
    return product_->columns_of(work, work.task.slots_at_once * kColsOfSlot);
  }
  void begin(std::int64_t thread_block, const TaskWork& work, int warp, WarpTrace& trace) const {
    ask(kTaskInstructions, kAskInstructions, warp, trace);
    const std::int64_t number = product_->number_of(thread_block);
    const std::uint64_t task = element(at_.tasks, number, kTaskBytes);
    load(kTaskBoard, task, 4, trace);
    trace.wait(kTaskBoard);
    load(kTaskBoard, element(at_.a.rows, work.task.tile_row, kTileRowBytes), kTileRowBytes, trace);
    trace.wait(kTaskBoard);
    if (warp == 0) find_rows(work.task, number, trace);
    load_values(work.task, warp, trace);
    for (const unsigned from : {12u, 4u, 8u}) load(kTaskBoard, task + from, 4, trace);
    trace.wait(kTaskBoard);
    trace.issue(kColumnsInstructions);
  }

  /// Where the task's rows of C begin: after those of slices before it.
  void find_rows(const Task& task, std::int64_t number, WarpTrace& trace) const {
    trace.issue(kRowInstructions);
    load(kTaskBoard, element(at_.tasks, number, kTaskBytes) + 12, 2, trace);
    const std::int64_t first = std::int64_t{kSide} * task.tile_row;
    const std::int64_t rows = std::min<std::int64_t>(kSide, product_->a.csr.rows - first);
    load(kTaskBoard, element(at_.row_offsets, first, 8), 8 * rows, trace);
    trace.wait(kTaskBoard);
    if (task.slice > 0) trace.issue(kSlicesInstructions);
    for (std::int64_t slice = 0; slice < std::int64_t{task.slice}; ++slice) {
      const std::int64_t of_slice = slice == 0 ? task.tile_row : number + slice - task.slice;
      trace.issue(kSliceInstructions);
      load(kTaskBoard, element(at_.cells, kSide * of_slice, 4), 4 * kSide, trace);
      if (slice % 16 == 15 || slice + 1 == std::int64_t{task.slice}) trace.wait(kTaskBoard);
    }
    trace.shared(1);
  }

  /// Those of A's tiles come to shared memory, every fourth one of a warp's.
  void load_values(const Task& task, int warp, WarpTrace& trace) const {
    const TiledMatrix& a = product_->a;
    const TileRow row = a.rows[static_cast<std::size_t>(task.tile_row)];
    const int own = std::max(0, (row.count - warp + kWarps - 1) / kWarps);
    trace.issue(kValuesInstructions);
    const auto take = [&](int from, int count) {
      for (int i = from; i < from + count; ++i) {
        const std::uint64_t tile =
            element(at_.a.tiles, std::int64_t{row.begin} + warp + kWarps * i, kTileBytes);
        load(kFactorBoard, tile, 8, trace);
        load(kFactorBoard, tile + 8, 4, trace);
      }
      trace.wait(kFactorBoard);
      for (int i = from; i < from + count; ++i) {
        const auto tile = static_cast<std::size_t>(std::int64_t{row.begin} + warp + kWarps * i);
        load_tile_values(at_.a.by_rows, a.tiles[tile], a.sectors_by_rows[tile], trace);
      }
      trace.issue(count == 1 ? kOneTileInstructions : kFourTilesInstructions);
      trace.wait(kValueBoard);
      for (int i = 0; i < count; ++i) trace.shared(value_bytes() / 2);
    };
    for (int i = 0; i < own % 4; ++i) take(i, 1);
    for (int i = own % 4; i < own; i += 4) take(i, 4);
  }

  /// Cells of tiles, and which of A's tiles meet in them.
  void find_cells(const Task& task, const Columns& columns, const Pass& pass, int warp,
                  WarpTrace& trace) const {
    trace.issue(kPassInstructions);
    SlotTrace::clear(pass.size, warp, trace);
    SlotTrace::clear(pass.size, warp, trace);
    trace.barrier();
    for_pairs(task, columns, kCellCosts, warp, trace, [&](const Pairs& pairs) {
      trace.issue(kRankOfPairInstructions);
      look_up(columns, pairs, trace);
      if (!join(task, pairs, pass.first, pass.size, trace)) return;
      trace.issue(kJoinInstructions);
      Banks words;
      for (const Pairs::Pair& pair : pairs)
        if (pair.of_c >= pass.first && pair.of_c < pass.first + pass.size)
          words.add(2 * (pair.of_c - pass.first) + pair.factor / 32);
      trace.shared(words.turns());
    });
    trace.barrier();
  }

  /// Columns of tiles; cells before each tile's; pairs before each tile's.
  void place_cells(const Columns& columns, const Pass& pass, int warp, WarpTrace& trace) const {
    trace.issue(kColsInstructions);
    for (std::int64_t slot = std::int64_t{32} * warp; slot < slots_of(columns); slot += kThreads)
      store_cols(columns, pass, slot, trace);
    constexpr int kLanesOfRow = kThreads / kSide;
    const int share = (pass.size + kLanesOfRow - 1) / kLanesOfRow;
    const int tiles = std::clamp(pass.size - 32 / kSide * warp * share, 0, share);
    Banks words(8);
    for (int row = 0; row < 32 / kSide; ++row) words.add(row * share);
    const int wavefronts = words.wavefronts();
    trace.issue(kPlaceInstructions);
    if (tiles > 0) trace.issue(kCellsInstructions);
    for (int tile = 0; tile < tiles; ++tile) {
      trace.issue(kTileCellsInstructions);
      trace.shared(wavefronts);
    }
    trace.shared(1);
    trace.shared(1);
    trace.shared(1);
    trace.barrier();
    if (warp > 0) trace.issue(kOtherWarpsInstructions + warp);
    for (int other = 0; other < warp; ++other) trace.shared(1);
    for (int tile = 0; tile < tiles; ++tile) {
      trace.issue(kTilePlaceInstructions);
      trace.shared(1);
      trace.shared(wavefronts);
    }
    trace.issue(kCountInstructions);
    trace.shared(2);
    SlotTrace::before(trace);
    trace.shared(1);
    trace.barrier();
  }

  /// Of the slots that the warp's lanes have, one mark after another.
  void store_cols(const Columns& columns, const Pass& pass, std::int64_t first_slot,
                  WarpTrace& trace) const {
    trace.issue(kSlotInstructions);
    trace.shared(2);
    std::array<int, 32> of_slot{};
    std::array<bool, kColsOfSlot> is_here{};
    int turns = 0;
    for (std::int64_t t = columns.first_tile; t < columns.last_tile; ++t) {
      const std::int64_t slot = slot_of(columns, tile_of_c(t).col) - first_slot;
      if (slot < 0 || slot >= 32) continue;
      const int turn = of_slot[static_cast<std::size_t>(slot)]++;
      turns = std::max(turns, turn + 1);
      if (t >= pass.first && t < pass.first + pass.size)
        is_here[static_cast<std::size_t>(turn)] = true;
    }
    for (int turn = 0; turn < turns; ++turn) {
      const bool stores = is_here[static_cast<std::size_t>(turn)];
      trace.issue(stores ? kColInstructions : kOtherColInstructions);
      if (stores) trace.shared(1);
    }
  }

  /// Pairs of the tiles from this one on, as many as there is room for.
  void list(const Task& task, const Columns& columns, const Pass& pass, int tile, int warp,
            WarpTrace& trace) const {
    trace.issue(kListInstructions);
    trace.shared(1);
    const int end = pass.end_of_list(tile, [&] {
      trace.issue(kEndOfListInstructions);
      trace.shared(1);
    });
    if (pass.odd > 0) {
      trace.issue(kOddInstructions);
      trace.shared(2);
    }
    for_pairs(task, columns, kListCosts, warp, trace, [&](const Pairs& pairs) {
      trace.issue(kMeetInstructions);
      look_up(columns, pairs, trace);
      Banks meetings(8), firsts, listed, halves;
      for (const Pairs::Pair& pair : pairs) {
        const std::int64_t of_c = pair.of_c - pass.first;
        if (of_c < tile || of_c >= end) continue;
        meetings.add(of_c);
        firsts.add(of_c);
        const std::uint64_t before = (std::uint64_t{1} << pair.factor) - 1;
        const std::int64_t at = pass.pairs_before(static_cast<int>(of_c)) +
                                std::popcount(tile_of_c(pair.of_c).meeting & before);
        listed.add(at);
        halves.add(at / 2);
      }
      if (meetings.is_empty()) return;
      trace.issue(kListPairInstructions);
      trace.shared(meetings.wavefronts());
      trace.shared(firsts.wavefronts());
      trace.shared(halves.wavefronts());
      trace.shared(listed.wavefronts());
    });
    trace.barrier();
  }

  void end_pass(int warp, WarpTrace& trace) const {
    trace.issue(kEndOfPassInstructions);
    if (warp == 0) {
      trace.issue(kRowBeginsInstructions);
      for (int i = 0; i < 9; ++i) trace.shared(1);
    }
    trace.barrier();
  }
};

}  // namespace

std::shared_ptr<const TaskTrace> trace_sums(std::shared_ptr<const Product> product,
                                            const Addresses& at) {
  return std::make_shared<SumsTrace>(std::move(product), at);
}

}  // namespace tessera::tile_spgemm::tracing
