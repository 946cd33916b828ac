// Instruction counts are those of the machine code for sm_90a (CUDA 13.0); of fp16's scaled sums
// about.

#include "kernels/spgemm/tile/pass_trace.hpp"

#include <algorithm>
#include <bit>

namespace tessera::tile_spgemm::tracing {

namespace {

/// One turn of a loop over listed pairs: what an odd number leaves, and two of those at once.
struct StepCosts {
  int begin, one, two;
};
constexpr StepCosts step_costs(TileArithmetic numbers) {
  if (numbers == TileArithmetic::kFp16) return {7, 46, 89};
  return numbers == TileArithmetic::kTf32 ? StepCosts{13, 28, 52} : StepCosts{13, 38, 73};
}

constexpr int kAddInstructions = 8, kSearchInstructions = 8, kSearchStepInstructions = 10,
              kOwnTilesInstructions = 7;
constexpr int kTileInstructions = 6, kAtInstructions = 8, kStageInstructions = 51,
              kEndOfStepsInstructions = 4, kTwoInstructions = 5;
constexpr int kStoreInstructions = 12, kCellsOfLaneInstructions = 21, kValueInstructions = 12,
              kUnscaleInstructions = 55;
constexpr int kNextListInstructions = 4;

}  // namespace

Pass::Pass(const Product& product, const Columns& columns, std::int64_t number)
    : first(columns.first_tile + number * kTilesOfPass),
      size(static_cast<int>(std::min<std::int64_t>(columns.last_tile - first, kTilesOfPass))),
      odd(pairs_of_mma(product.numbers) - 1) {
  int before = 0;
  for (int tile = 0; tile < size; ++tile) {
    first_pairs[static_cast<std::size_t>(tile)] = before;
    const TileOfC& of_c = product.tiles_of_c[static_cast<std::size_t>(first + tile)];
    before += (std::popcount(of_c.meeting) + odd) & ~odd;
  }
  first_pairs[static_cast<std::size_t>(size)] = before;
}

void PassTrace::load_tile_values(std::uint64_t values, const Tile& tile,
                                 const ValueSectors& sectors, WarpTrace& trace) const {
  const std::uint64_t first =
      element(values, tile.first_value, value_bytes()) / kSectorBytes * kSectorBytes;
  for (const unsigned of : {unsigned{sectors.even}, unsigned{sectors.odd}}) {
    if (of == 0) {
      trace.issue(1);
      continue;
    }
    trace.load(kValueBoard);
    for (unsigned rest = of; rest != 0; rest &= rest - 1)
      trace.touch(first + kSectorBytes * static_cast<unsigned>(std::countr_zero(rest)),
                  kSectorBytes);
  }
}

std::vector<PassTrace::Listed> PassTrace::listed_pairs(const Task& task, const Pass& pass, int tile,
                                                       int end) const {
  const TiledMatrix &a = product_->a, &b = product_->tiles_of_b();
  const std::int64_t row = a.rows[static_cast<std::size_t>(task.tile_row)].begin;
  std::vector<Listed> pairs;
  for (; tile < end; ++tile) {
    const TileOfC& of_c = tile_of_c(pass.first + tile);
    for (std::uint64_t rest = of_c.meeting; rest != 0; rest &= rest - 1) {
      const std::int64_t of_a = row + std::countr_zero(rest);
      const TileRow of_b =
          b.rows[static_cast<std::size_t>(a.tiles[static_cast<std::size_t>(of_a)].col)];
      const auto first = b.tiles.begin() + of_b.begin;
      const auto found = std::lower_bound(
          first, first + of_b.count, of_c.col,
          [](const Tile& candidate, std::int32_t col) { return candidate.col < col; });
      pairs.push_back({of_a, found - b.tiles.begin()});
    }
    while ((std::ssize(pairs) & pass.odd) != 0) pairs.push_back({-1, -1});
  }
  return pairs;
}

void PassTrace::add(const TaskWork& work, const Pass& pass, int tile, int warp,
                    WarpTrace& trace) const {
  const int end = pass.end_of_list(tile);
  const int before = pass.pairs_before(tile) + kPairsOfTile * tile;
  const int all = pass.pairs_before(end) + kPairsOfTile * end - before;
  trace.issue(kAddInstructions);
  trace.shared(1);
  trace.shared(1);
  const auto find = [&](int share) {
    trace.issue(kSearchInstructions);
    return pass.tile_after(tile, end, before + all * share / kWarps, [&] {
      trace.issue(kSearchStepInstructions);
      trace.shared(1);
    });
  };
  const int last = find(warp + 1), first = find(warp);
  if (first < last) {
    trace.issue(kOwnTilesInstructions);
    for (int i = 0; i < 3; ++i) trace.shared(1);
    add_tiles(work, pass, first, last, trace);
  }
  trace.issue(kNextListInstructions);
  trace.barrier();
}

void PassTrace::add_tiles(const TaskWork& work, const Pass& pass, int first, int last,
                          WarpTrace& trace) const {
  const std::vector<Listed> pairs = listed_pairs(work.task, pass, first, last);
  std::array<std::int64_t, kSide> places = work.row_begins;
  for (std::int64_t t = work.first_tile; t < pass.first + first; ++t) pass_cells(t, places);
  int at = 0, end_staged = 0;
  for (int tile = first; tile < last; ++tile) {
    trace.issue(kTileInstructions);
    trace.shared(1);
    const int end = pass.pairs_before(tile + 1) - pass.pairs_before(first);
    while (at < end) {
      if (at == end_staged) {
        stage_pairs(pairs, at, trace);
        end_staged = at + 32;
      }
      trace.issue(kAtInstructions);
      const int stop = std::min(end, end_staged);
      take_steps(pairs, at, stop, trace);
      at = stop;
    }
    trace.wait_mma();
    store(pass.first + tile, places, trace);
    pass_cells(pass.first + tile, places);
  }
}

void PassTrace::pass_cells(std::int64_t tile, std::array<std::int64_t, kSide>& places) const {
  for (std::size_t row = 0; row < kSide; ++row)
    places[row] += std::popcount(tile_of_c(tile).cells >> kSide * row & 0xff);
}

void PassTrace::stage_pairs(const std::vector<Listed>& pairs, int at, WarpTrace& trace) const {
  const int end = std::min(at + 32, static_cast<int>(std::ssize(pairs)));
  trace.shared(1);
  trace.shared(1);
  for (const unsigned from : {0u, 8u}) {
    trace.load(kPairBoard);
    for (int i = at; i < end; ++i)
      if (pairs[static_cast<std::size_t>(i)].of_b >= 0)
        trace.touch(
            element(at_.b.tiles, pairs[static_cast<std::size_t>(i)].of_b, kTileBytes) + from,
            from == 0 ? 8 : 4);
  }
  trace.wait(kPairBoard);
  trace.issue(kStageInstructions);
  trace.shared(4);
}

void PassTrace::take_steps(const std::vector<Listed>& pairs, int at, int stop,
                           WarpTrace& trace) const {
  const StepCosts costs = step_costs(product_->numbers);
  const int of_mma = pairs_of_mma(product_->numbers);
  const int mmas = product_->numbers == TileArithmetic::kTf32x3 ? 2 : 1;
  int steps = (stop - at) / of_mma;
  trace.issue(costs.begin);
  if (steps % 2 == 0) trace.issue(kTwoInstructions - 2);
  for (int size = steps % 2 == 1 ? 1 : 2; steps > 0; steps -= size, size = 2) {
    const int taken = size * of_mma;
    const int instructions = size == 1 ? costs.one : costs.two;
    for (int i = 0; i < taken; ++i) trace.shared(1);
    trace.issue(instructions / 2);
    for (int i = at; i < at + taken; ++i) load_pair(pairs[static_cast<std::size_t>(i)], trace);
    for (int i = 0; i < taken; ++i) trace.shared(value_bytes() / 2);
    trace.wait(kValueBoard);
    trace.issue(instructions - instructions / 2);
    for (int i = 0; i < size * mmas; ++i) trace.mma(1);
    at += taken;
  }
  trace.issue(kEndOfStepsInstructions);
}

void PassTrace::load_pair(const Listed& pair, WarpTrace& trace) const {
  if (pair.of_b < 0) return trace.issue(2);
  const TiledMatrix& b = product_->tiles_of_b();
  const auto tile = static_cast<std::size_t>(pair.of_b);
  load_tile_values(at_.b.by_cols, b.tiles[tile], b.sectors_by_cols[tile], trace);
}

void PassTrace::store(std::int64_t tile, const std::array<std::int64_t, kSide>& places,
                      WarpTrace& trace) const {
  trace.issue(kStoreInstructions);
  trace.shared(1);
  trace.issue(kCellsOfLaneInstructions);
  trace.shared(1);
  const std::uint64_t cells = tile_of_c(tile).cells;
  for (const int odd : {0, 1}) {
    if ((cells & std::uint64_t{0x5555555555555555u} << odd) == 0) continue;
    trace.issue(kValueInstructions);
    trace.shared(1);
    if (product_->numbers == TileArithmetic::kFp16) {
      trace.issue(kUnscaleInstructions);
      load(kTaskBoard, at_.found, 8, trace);
      trace.wait(kTaskBoard);
    }
    for (const std::uint64_t array : {at_.c_cols, at_.c_values}) {
      trace.store();
      for (std::size_t row = 0; row < kSide; ++row) {
        std::int64_t place = places[row];
        for (std::uint64_t rest = cells >> kSide * row & 0xff; rest != 0; rest &= rest - 1) {
          if (std::countr_zero(rest) % 2 == odd) trace.touch(element(array, place, 4), 4);
          ++place;
        }
      }
    }
  }
}

}  // namespace tessera::tile_spgemm::tracing
