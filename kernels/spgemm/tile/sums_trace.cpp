// The warps of make_sums() for short tile rows of A.

#include <algorithm>
#include <bit>

#include "kernels/device/shared_banks.hpp"
#include "kernels/spgemm/tile/task_trace.hpp"

namespace tessera::tile_spgemm::tracing {

namespace {

using Counted = CountedMakeSums;

/// Tiles of C that a thread block has at once, and where their pairs begin.
struct Pass {
  Pass(const ProductAnalysis& product, const TaskColumns& columns, std::int64_t number)
      : first(columns.first_tile + number * kTilesOfPass),
        size(static_cast<int>(std::min<std::int64_t>(columns.last_tile - first, kTilesOfPass))),
        padding(MakeSums::padding(product.arithmetic)),
        list_size(MakeSums::list_size(product.arithmetic, false)) {
    first_pairs[0] = 0;
    for (int tile = 0; tile < size; ++tile)
      first_pairs[tile + 1] =
          first_pairs[tile] +
          MakeSums::padded(std::popcount(product.tiles_of_c[first + tile].matches), padding);
  }

  bool has(std::int64_t of_c) const { return of_c >= first && of_c < first + size; }
  int work_before(int tile) const { return MakeSums::work_before(tile, first_pairs[tile]); }

  /// The searches of make_sums(), which call step() for each of their steps.
  template <class Step>
  int end_of_list(int tile, Step step) const {
    return MakeSums::end_of_list(tile, size, first_pairs[tile], list_size, counting(step));
  }
  int end_of_list(int tile) const {
    return end_of_list(tile, [] {});
  }
  template <class Step>
  int tile_after(int begin, int end, int work, Step step) const {
    return MakeSums::tile_after(begin, end, work, counting(step));
  }

  std::int64_t first;
  int size, padding, list_size;
  std::array<int, kTilesOfPass + 1> first_pairs;

 private:
  template <class Step>
  auto counting(Step step) const {
    return [this, step](int tile) {
      step();
      return first_pairs[tile];
    };
  }
};

/// The progress of a warp in its task: columns, pass over their tiles, first tile of a list.
struct Progress {
  Progress() = default;
  Progress(std::int64_t of_columns, std::int64_t of_pass, int of_tile)
      : columns(of_columns), pass(of_pass), tile(of_tile) {}
  explicit Progress(std::int64_t packed)
      : columns(packed >> 40), pass(packed >> 8 & 0xffffffff), tile(packed & 0xff) {}
  std::int64_t packed() const { return columns << 40 | pass << 8 | tile; }

  std::int64_t columns = 0, pass = 0;
  int tile = 0;
};

class SumsTrace final : public TaskTrace {
 public:
  using TaskTrace::TaskTrace;

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const TaskWork& work = product_->task_of(thread_block);
    const std::vector<TaskColumns> all = columns_of(work);
    const Progress now(cursor.step);
    Warp w{trace, warp};
    const auto go_on = [&](Phase phase, const Progress& to) {
      cursor = {.step = to.packed(), .part = static_cast<std::int64_t>(phase)};
      return true;
    };
    const auto phase = static_cast<Phase>(cursor.part);
    if (phase == Phase::kBegin) {
      begin(thread_block, work, w);
      return !all.empty() && go_on(Phase::kMark, {});
    }
    const TaskColumns& columns = all[now.columns];
    if (phase == Phase::kMark) {
      mark(work.task, columns, Counted::kMarks, w);
      if (columns.tiles() > 0) return go_on(Phase::kCells, now);
    } else {
      const Pass pass(*product_, columns, now.pass);
      if (phase == Phase::kCells) {
        find_cells(work.task, columns, pass, w);
        return go_on(Phase::kList, now);
      }
      if (phase == Phase::kList) {
        if (now.tile == 0) place_cells(columns, pass, w);
        list(work.task, columns, pass, now.tile, w);
        return go_on(Phase::kAdd, now);
      }
      add(work, pass, now.tile, w);
      if (const int end = pass.end_of_list(now.tile); end < pass.size)
        return go_on(Phase::kList, {now.columns, now.pass, end});
      end_pass(w);
      if (pass.first + pass.size < columns.last_tile)
        return go_on(Phase::kCells, {now.columns, now.pass + 1, 0});
    }
    end_columns(Counted::kEndOfColumns, thread_block, w);
    return now.columns + 1 < std::ssize(all) && go_on(Phase::kMark, {now.columns + 1, 0, 0});
  }

  std::int64_t barriers(std::int64_t thread_block) const override {
    constexpr int kPassBarriers = 5 + Warp::kPrefixSumBarriers, kListBarriers = 2;
    std::int64_t barriers = kTaskBarriers;
    for (const TaskColumns& columns : columns_of(product_->task_of(thread_block))) {
      barriers += barriers_of_columns(columns);
      for (std::int64_t number = 0; number * kTilesOfPass < columns.tiles(); ++number) {
        const Pass pass(*product_, columns, number);
        barriers += kPassBarriers;
        for (int tile = 0; tile < pass.size; tile = pass.end_of_list(tile))
          barriers += kListBarriers;
      }
    }
    return barriers;
  }

 private:
  enum class Phase : std::int64_t { kBegin, kMark, kCells, kList, kAdd };
  static constexpr int kValueBoard = 3, kPairBoard = 4;

  /// A listed pair's tiles of A and B; -1 where an MMA has no second pair.
  struct Listed {
    std::int64_t of_a, of_b;
  };

  TileArithmetic arithmetic() const { return product_->arithmetic; }
  std::vector<TaskColumns> columns_of(const TaskWork& work) const {
    return product_->columns_of(work, work.task.slots_at_once * kColsOfSlot);
  }

  void begin(std::int64_t thread_block, const TaskWork& work, Warp& w) const {
    take_task(Counted::kTask, Counted::kNextTask, w);
    const std::int64_t number = product_->number_of(thread_block);
    w.load_and_wait(kTaskBoard, at_.task(number), 4);
    load_tile_row(work, w);
    if (w.number == 0) find_rows(work.task, number, w);
    load_values_of_a(work.task, w);
    for (const unsigned from : {12u, 4u, 8u}) w.load(kTaskBoard, at_.task(number) + from, 4);
    w.wait(kTaskBoard);
    w.issue(Counted::kColumns);
  }

  /// Finds where the task's rows of C begin: after those of earlier slices.
  void find_rows(const Task& task, std::int64_t number, Warp& w) const {
    constexpr int kSlicesAhead = 16;
    const int slices = task.slice;
    const std::int64_t first = std::int64_t{kSide} * task.tile_row;
    const std::int64_t rows = std::min<std::int64_t>(kSide, product_->a.csr.rows - first);
    w.issue(Counted::kRow);
    w.load(kTaskBoard, at_.task(number) + 12, 2);
    w.load_and_wait(kTaskBoard, element(at_.row_offsets, first, 8), 8 * rows);
    if (slices > 0) w.issue(Counted::kSlices);
    for (int slice = 0; slice < slices; ++slice) {
      w.issue(Counted::kSlice);
      w.load(kTaskBoard, at_.cells_of(number_of_slice(task, number, slice)), 4 * kSide);
      if (slice % kSlicesAhead == kSlicesAhead - 1 || slice + 1 == slices) w.wait(kTaskBoard);
    }
    w.shared(1);
  }

  /// Each warp moves every fourth tile of A to shared memory, some tiles at a time.
  void load_values_of_a(const Task& task, Warp& w) const {
    constexpr int kTilesAhead = 4;
    const TiledMatrix& a = product_->a;
    const TileRow& row = product_->row_of_a(task);
    const int own = std::max(0, rounds(row.count - w.number, kWarps));
    w.issue(Counted::kValues);
    const auto load = [&](int from, int count) {
      const std::int64_t first = std::int64_t{row.begin} + w.number + kWarps * from,
                         end = first + kWarps * count;
      for (std::int64_t tile = first; tile < end; tile += kWarps) {
        w.load(kFactorBoard, at_.a.tile(tile), 8);
        w.load(kFactorBoard, at_.a.tile(tile) + 8, 4);
      }
      w.wait(kFactorBoard);
      for (std::int64_t tile = first; tile < end; tile += kWarps)
        load_values(at_.a.by_rows, a.tiles[tile], a.sectors_by_rows[tile], w);
      w.issue(count == 1 ? Counted::kOneTile : Counted::kFourTiles);
      w.wait(kValueBoard);
      w.shared(value_bytes(arithmetic()) / 2, count);
    };
    for (int i = 0; i < own % kTilesAhead; ++i) load(i, 1);
    for (int i = own % kTilesAhead; i < own; i += kTilesAhead) load(i, kTilesAhead);
  }

  /// Loads the values of a tile, by two instructions.
  void load_values(std::uint64_t values, const Tile& tile, const ValueSectors& sectors,
                   Warp& w) const {
    const std::uint64_t first =
        element(values, tile.first_value, value_bytes(arithmetic())) / kSectorBytes * kSectorBytes;
    for (const unsigned of : {unsigned{sectors.even}, unsigned{sectors.odd}}) {
      if (of == 0) {
        w.issue(Counted::kNoValues);
        continue;
      }
      w.trace.load(kValueBoard);
      for (unsigned rest = of; rest != 0; rest &= rest - 1)
        w.trace.touch(first + kSectorBytes * static_cast<unsigned>(std::countr_zero(rest)),
                      kSectorBytes);
    }
  }

  /// Finds the cells of tiles, and the tiles of A that have pairs in them.
  void find_cells(const Task& task, const TaskColumns& columns, const Pass& pass, Warp& w) const {
    w.issue(Counted::kPass);
    w.clear(pass.size);
    w.clear(pass.size);
    w.barrier();
    for_pairs(task, columns, Counted::kCells, w, [&](const Pairs& pairs) {
      w.issue(Counted::kRank);
      read_ranks(columns, pairs, w);
      if (!join(task, pairs, pass.first, pass.size, w)) return;
      w.issue(Counted::kJoin);
      Banks words;
      for (const Pairs::Pair& pair : pairs)
        if (pass.has(pair.of_c)) words.add(2 * (pair.of_c - pass.first) + pair.factor / 32);
      w.shared(words.turns());
    });
    w.barrier();
  }

  /// Finds the columns of tiles, the cells before each tile and the pairs before each tile.
  void place_cells(const TaskColumns& columns, const Pass& pass, Warp& w) const {
    constexpr int kLanes = kWarpSize / kSide;  // of a row
    w.issue(Counted::kCols);
    for (std::int64_t slot = w.first_thread(); slot < columns.slots(); slot += kThreads)
      store_cols(columns, pass, slot, w);
    const int share = MakeSums::tiles_of_lane(pass.size);
    const int tiles = std::clamp(pass.size - kLanes * w.number * share, 0, share);
    Banks words(8);
    for (int lane = 0; lane < kLanes; ++lane) words.add(lane * share);
    const int wavefronts = words.wavefronts();
    w.issue(Counted::kPlace);
    if (tiles > 0) w.issue(Counted::kCellsOfLane);
    for (int tile = 0; tile < tiles; ++tile) {
      w.issue(Counted::kTileCells);
      w.shared(wavefronts);
    }
    w.shared(1, 3);
    w.barrier();
    if (w.number > 0) w.issue(Counted::kOtherWarps + w.number);
    w.shared(1, w.number);
    for (int tile = 0; tile < tiles; ++tile) {
      w.issue(Counted::kTilePlace);
      w.shared(1);
      w.shared(wavefronts);
    }
    w.issue(Counted::kCount);
    w.shared(2);
    w.prefix_sum();
    w.shared(1);
    w.barrier();
  }

  /// Stores the columns of tiles in the slots of the warp's lanes, one mark after another.
  void store_cols(const TaskColumns& columns, const Pass& pass, std::int64_t first_slot,
                  Warp& w) const {
    w.issue(Counted::kSlot);
    w.shared(2);
    std::array<int, kWarpSize> of_slot{};
    std::array<bool, kColsOfSlot> stores{};
    int turns = 0;
    for (std::int64_t t = columns.first_tile; t < columns.last_tile; ++t) {
      const std::int64_t slot = columns.slot_of(tile_of_c(t).col) - first_slot;
      if (slot < 0 || slot >= kWarpSize) continue;
      const int turn = of_slot[slot]++;
      turns = std::max(turns, turn + 1);
      if (pass.has(t)) stores[turn] = true;
    }
    for (int turn = 0; turn < turns; ++turn) {
      w.issue(stores[turn] ? Counted::kColumn : Counted::kOtherColumn);
      if (stores[turn]) w.shared(1);
    }
  }

  /// Lists the pairs of the tiles from this one on, as many as there is room for.
  void list(const Task& task, const TaskColumns& columns, const Pass& pass, int tile,
            Warp& w) const {
    w.issue(Counted::kList);
    w.shared(1);
    const int end = pass.end_of_list(tile, [&] {
      w.issue(Counted::kEndOfListStep);
      w.shared(1);
    });
    if (pass.padding > 0) {
      w.issue(Counted::kPad);
      w.shared(2);
    }
    for_pairs(task, columns, Counted::kPairs, w, [&](const Pairs& pairs) {
      w.issue(Counted::kFind);
      read_ranks(columns, pairs, w);
      Banks matches(8), firsts, listed, halves;
      for (const Pairs::Pair& pair : pairs) {
        const std::int64_t of_c = pair.of_c - pass.first;
        if (of_c < tile || of_c >= end) continue;
        matches.add(of_c);
        firsts.add(of_c);
        const std::uint64_t before = (std::uint64_t{1} << pair.factor) - 1;
        const std::int64_t at =
            pass.first_pairs[of_c] + std::popcount(tile_of_c(pair.of_c).matches & before);
        listed.add(at);
        halves.add(at / 2);
      }
      if (matches.is_empty()) return;
      w.issue(Counted::kListPair);
      for (Banks* words : {&matches, &firsts, &halves, &listed}) w.shared(words->wavefronts());
    });
    w.barrier();
  }

  /// Adds up the warp's share of the listed tiles.
  void add(const TaskWork& work, const Pass& pass, int tile, Warp& w) const {
    const int end = pass.end_of_list(tile), before = pass.work_before(tile);
    w.issue(Counted::kAdd);
    w.shared(1, 2);
    const auto find = [&](int warp) {
      w.issue(Counted::kSearch);
      const int share = MakeSums::share_begin(pass.work_before(end) - before, warp);
      return pass.tile_after(tile, end, before + share, [&] {
        w.issue(Counted::kSearchStep);
        w.shared(1);
      });
    };
    const int last = find(w.number + 1), first = find(w.number);
    if (first < last) {
      w.issue(Counted::kOwnTiles);
      w.shared(1, 3);
      add_tiles(work, pass, first, last, w);
    }
    w.issue(Counted::kNextList);
    w.barrier();
  }

  void add_tiles(const TaskWork& work, const Pass& pass, int first, int last, Warp& w) const {
    const std::vector<Listed> pairs = listed_pairs(work.task, pass, first, last);
    std::array<std::int64_t, kSide> places = work.row_begins;
    for (std::int64_t t = work.first_tile; t < pass.first + first; ++t) pass_cells(t, places);
    int at = 0, end_staged = 0;
    for (int tile = first; tile < last; ++tile) {
      w.issue(Counted::kTile);
      w.shared(1);
      const int end = pass.first_pairs[tile + 1] - pass.first_pairs[first];
      while (at < end) {
        if (at == end_staged) {
          stage_pairs(pairs, at, w);
          end_staged = at + kWarpSize;
        }
        w.issue(Counted::kNextPairs);
        const int stop = std::min(end, end_staged);
        multiply(std::span(pairs).subspan(at, stop - at), w);
        at = stop;
      }
      w.trace.wait_mma();
      store(pass.first + tile, places, w);
      pass_cells(pass.first + tile, places);
    }
  }

  /// The pairs of the tiles [tile, end) of a pass, in their order.
  std::vector<Listed> listed_pairs(const Task& task, const Pass& pass, int tile, int end) const {
    const TiledMatrix& b = product_->tiles_of_b();
    std::vector<Listed> pairs;
    for (; tile < end; ++tile) {
      const TileOfC& of_c = tile_of_c(pass.first + tile);
      for (std::uint64_t rest = of_c.matches; rest != 0; rest &= rest - 1) {
        const std::int64_t of_a = product_->row_of_a(task).begin + std::countr_zero(rest);
        const TileRow& row = b.row_of(product_->a.tiles[of_a]);
        pairs.push_back({of_a, b.find(row.begin, std::int64_t{row.begin} + row.count, of_c.col,
                                      [](std::int64_t) {})});
      }
      while ((std::ssize(pairs) & pass.padding) != 0) pairs.push_back({-1, -1});
    }
    return pairs;
  }

  void pass_cells(std::int64_t tile, std::array<std::int64_t, kSide>& places) const {
    for (std::size_t row = 0; row < kSide; ++row)
      places[row] += std::popcount(tile_of_c(tile).cells >> kSide * row & 0xff);
  }

  /// Stages the pairs from `at` on, one for each lane.
  void stage_pairs(const std::vector<Listed>& pairs, int at, Warp& w) const {
    const int end = std::min(at + kWarpSize, static_cast<int>(std::ssize(pairs)));
    w.shared(1, 2);
    for (const auto& [from, bytes] : {std::pair{0u, 8}, std::pair{8u, 4}}) {
      w.trace.load(kPairBoard);
      for (int i = at; i < end; ++i)
        if (pairs[i].of_b >= 0) w.trace.touch(at_.b.tile(pairs[i].of_b) + from, bytes);
    }
    w.wait(kPairBoard);
    w.issue(Counted::kStage);
    w.shared(4);
  }

  /// Multiplies staged pairs of one tile: an odd group, then two groups at a time.
  void multiply(std::span<const Listed> pairs, Warp& w) const {
    const Counted::Groups counted = Counted::groups(arithmetic());
    const int of_group = pairs_of_mma(arithmetic());
    int groups = static_cast<int>(std::ssize(pairs)) / of_group, at = 0;
    w.issue(counted.begin);
    if (groups % 2 == 0) w.issue(Counted::kEvenGroups);
    for (int size = groups % 2 == 1 ? 1 : 2; groups > 0; groups -= size, size = 2) {
      const int taken = size * of_group, instructions = size == 1 ? counted.one : counted.two;
      w.shared(1, taken);
      w.issue(instructions / 2);
      for (const Listed& pair : pairs.subspan(at, taken)) load_pair(pair, w);
      w.shared(value_bytes(arithmetic()) / 2, taken);
      w.wait(kValueBoard);
      w.issue(instructions - instructions / 2);
      for (int i = 0; i < size * mmas_of_group(arithmetic()); ++i) w.trace.mma(1);
      at += taken;
    }
    w.issue(Counted::kGroups);
  }

  void load_pair(const Listed& pair, Warp& w) const {
    if (pair.of_b < 0) return w.issue(Counted::kNoPair);
    const TiledMatrix& b = product_->tiles_of_b();
    load_values(at_.b.by_cols, b.tiles[pair.of_b], b.sectors_by_cols[pair.of_b], w);
  }

  /// Stores two cells of each lane: columns and values of the first ones, then of the second ones.
  void store(std::int64_t tile, const std::array<std::int64_t, kSide>& places, Warp& w) const {
    w.issue(Counted::kStore);
    w.shared(1);
    w.issue(Counted::kLaneCells);
    w.shared(1);
    const std::uint64_t cells = tile_of_c(tile).cells;
    for (const int odd : {0, 1}) {
      if ((cells & std::uint64_t{0x5555555555555555u} << odd) == 0) continue;
      w.issue(Counted::kValue);
      w.shared(1);
      if (arithmetic() == TileArithmetic::kFp16) {
        w.issue(Counted::kUnscale);
        w.load_and_wait(kTaskBoard, at_.found, 8);
      }
      for (const std::uint64_t array : {at_.c_cols, at_.c_values}) {
        w.trace.store();
        for (std::size_t row = 0; row < kSide; ++row) {
          std::int64_t place = places[row];
          for (std::uint64_t rest = cells >> kSide * row & 0xff; rest != 0; rest &= rest - 1) {
            if (std::countr_zero(rest) % 2 == odd) w.trace.touch(element(array, place, 4), 4);
            ++place;
          }
        }
      }
    }
  }

  void end_pass(Warp& w) const {
    w.issue(Counted::kEndOfPass);
    if (w.number == 0) {
      w.issue(Counted::kRowBegins);
      w.shared(1, 9);
    }
    w.barrier();
  }
};

}  // namespace

std::shared_ptr<const TaskLaunch> trace_make_sums(std::shared_ptr<const ProductAnalysis> product,
                                                  const ArrayAddresses& at) {
  return std::make_shared<SumsTrace>(std::move(product), at);
}

}  // namespace tessera::tile_spgemm::tracing
