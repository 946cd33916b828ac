// tall_spmm without a GPU: who multiplies what, where cells of a tile are, and the order of sums.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "formats/base/registry.hpp"
#include "formats/tall_tiles.hpp"
#include "kernels/gpu_limits.hpp"
#include "kernels/spmm/tall/schedule.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using tall_spmm::kTileCols;
using tall_spmm::kWindowRows;

std::unique_ptr<PackedMatrix> pack_tall(const CsrMatrix& a) {
  return Registry<Format>::instance().make(TallTiles::kFormat)->pack(a);
}
std::unique_ptr<SpmmKernel> tall_kernel(const Params::Given& given) {
  return Registry<SpmmKernel>::instance().make("tall_spmm", given);
}

TEST_CASE("every tile is multiplied once, and tasks are shared evenly") {
  for (const std::int32_t rows : {0, 1, 64, 700, 40000}) {
    const CsrMatrix a = random_sparse(rows, 3000, 0.002, 17);
    const auto packed = pack_tall(a);
    const auto& tall = packed_as<TallTiles>(*packed);
    for (const std::int64_t n : {1, 128, 129, 1000, 60000})
      for (const std::int64_t max_tiles : {0, 1, 3}) {
        CAPTURE(rows);
        CAPTURE(n);
        CAPTURE(max_tiles);
        const tall_spmm::Plan plan = tall_spmm::make_plan(tall.window_offset, n, max_tiles);
        CHECK(plan.workers() * tall_spmm::chunks_of(n) <=
              std::max(tall_spmm::kWorkers, tall_spmm::chunks_of(n)));
        std::vector<int> times(static_cast<std::size_t>(tall.num_tiles()) + 1, 0);
        std::map<std::uint32_t, std::int64_t> first_task;  // of a window
        for (std::int64_t i = 0; i < std::ssize(plan.tasks.tasks); ++i)
          first_task.try_emplace(plan.tasks.tasks[i].window, i);
        std::int64_t begun = 0, ended = 0, largest = 0;
        std::vector<std::int64_t> loads(static_cast<std::size_t>(plan.workers()), 0);
        for (std::int64_t worker = 0; worker < plan.workers(); ++worker) {
          const std::int64_t first = plan.first_turn[worker], last = plan.first_turn[worker + 1];
          CHECK(first < last);
          CHECK(plan.turns[first].is_first());
          CHECK(plan.turns[last - 1].is_last());
          for (std::int64_t i = first; i < last; ++i) {
            const tall_spmm::Turn& turn = plan.turns[i];
            ++times[turn.tile];
            begun += turn.is_first(), ended += turn.is_last();
            if (turn.is_first()) {
              const std::int64_t cost =
                  tall_spmm::cost_of(plan.tasks, first_task.at(turn.window) + turn.part());
              loads[worker] += cost, largest = std::max(largest, cost);
            }
            if (turn.tile == tall.num_tiles()) continue;
            CHECK(turn.tile >= tall.window_offset[turn.window]);
            CHECK(turn.tile < tall.window_offset[turn.window + 1]);
          }
        }
        for (std::int64_t tile = 0; tile < tall.num_tiles(); ++tile) CHECK(times[tile] == 1);
        CHECK(begun == std::ssize(plan.tasks.tasks));
        CHECK(ended == begun);
        if (loads.empty()) continue;
        // A worker took its last task when it had the least to do.
        const auto [least, most] = std::ranges::minmax(loads);
        CHECK(most - least <= largest);
      }
  }
}

TEST_CASE("each warp has the parts of split windows, and slots of its own for them") {
  const auto packed = pack_tall(random_sparse(700, 3000, 0.02, 19));
  const tall_spmm::Plan plan =
      tall_spmm::make_plan(packed_as<TallTiles>(*packed).window_offset, 128, 3);
  REQUIRE(!plan.tasks.splits.empty());
  const window_tasks::Tasks parts = tall_spmm::parts_of_warps(plan.tasks);

  REQUIRE(parts.splits.size() == tall_spmm::kWarps * plan.tasks.splits.size());
  CHECK(parts.slots == tall_spmm::kWarps * plan.tasks.slots);
  std::set<std::int64_t> slots;
  for (std::size_t i = 0; i < parts.splits.size(); ++i) {
    const window_tasks::Split& split = parts.splits[i];
    const window_tasks::Split& whole = plan.tasks.splits[i / tall_spmm::kWarps];
    REQUIRE(split.parts == whole.parts);
    for (std::uint32_t part = 0; part < split.parts; ++part) {
      const window_tasks::Task& task = parts.tasks[split.first_task + part];
      CHECK(task.split == i + 1);
      CHECK(task.first == plan.tasks.tasks[whole.first_task + part].first);
      CHECK(split.first_slot + part < parts.slots);
      slots.insert(split.first_slot + part);
    }
  }
  CHECK(std::ssize(slots) == parts.slots);
}

TEST_CASE("three thread blocks of tall_spmm fit a multiprocessor") {
  constexpr std::int64_t kReserved = 1024;
  CHECK(tall_spmm::kResident * (tall_spmm::kScaledSharedBytes + kReserved) <=
        kH200Limits.shared_bytes);
}

TEST_CASE("an expanded tile has a place of its own for every cell") {
  std::set<std::uint32_t> bytes;
  for (std::uint32_t row = 0; row < kWindowRows; ++row)
    for (std::uint32_t col = 0; col < kTileCols; ++col)
      bytes.insert(tall_spmm::expanded_byte(row, col));
  CHECK(std::ssize(bytes) == kWindowRows * kTileCols);
  CHECK(*bytes.rbegin() == tall_spmm::kTileBytes - 2);
  // Row 9 and column 13: the second piece of the second eight rows' second row, exchanged.
  CHECK(tall_spmm::expanded_byte(9, 13) == 9 * 128 + 0 * 16 + 5 * 2);
}

TEST_CASE("tall_spmm adds the chains of a split window's parts in their order") {
  const CsrMatrix a = random_sparse(70, 300, 0.3, 11);
  const DenseMatrix b = random_dense(300, 5, 12);
  const auto packed = pack_tall(a);
  const auto& tall = packed_as<TallTiles>(*packed);
  for (const char* storage : {"fp16", "bf16"}) {
    CAPTURE(std::string(storage));
    const auto kernel =
        tall_kernel({{"storage", std::string(storage)}, {"max_tiles", std::int64_t{2}}});
    const tall_spmm::Plan plan = tall_spmm::make_plan(tall.window_offset, 5, 2);
    REQUIRE(plan.tasks.splits.size() == 2);
    const Precision& precision = find_precision(storage);
    const Generation& hopper = find_generation("hopper");
    const FusedStep& step = hopper.step(type_of(precision.conversion));
    const PreparedB prepared(b, precision);
    DenseMatrix expected(70, 5);
    for (const window_tasks::Task& task : plan.tasks.tasks) {
      for (int in_window = 0; in_window < kWindowRows; ++in_window) {
        const std::int64_t row = std::int64_t{task.window} * kWindowRows + in_window;
        if (row >= a.rows) break;
        std::vector<RowTerm> terms;
        for (std::int64_t place = std::int64_t{task.first} * kTileCols;
             place < std::int64_t{task.last} * kTileCols; ++place) {
          const std::int32_t col = tall.tile_cols[place];
          if (col == kNoColumn) break;
          float value = 0;
          for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k)
            if (a.col_indices[k] == col) value = a.values[k];
          terms.push_back({value, col});
        }
        std::vector<float> sums(5, 0.0f);
        multiply_row(precision, step, tall_spmm::kStepDepth, terms, prepared, sums);
        const bool is_first = task.first == tall.window_offset[task.window];
        for (std::size_t j = 0; j < sums.size(); ++j)
          expected.row(row)[j] = is_first ? sums[j] : add_on_gpu(expected.row(row)[j], sums[j]);
      }
    }
    CHECK(kernel->emulate(tall, b, hopper).values == expected.values);
    // The parts are not added in another order.
    CHECK(tall_kernel({{"storage", std::string(storage)}, {"max_tiles", std::int64_t{1}}})
              ->emulate(tall, b, hopper)
              .values != expected.values);
  }
}

TEST_CASE("tall_spmm on CUDA cores multiplies in FP32, and what cannot be narrowed is so") {
  const CsrMatrix a = random_sparse(100, 90, 0.1, 5);
  DenseMatrix b = random_dense(90, 6, 6);
  const auto packed = pack_tall(a);
  const Generation& hopper = find_generation("hopper");
  const auto wide = tall_kernel({{"precision", std::string("fp32")}});
  DenseMatrix expected(100, 6);
  for (std::int64_t row = 0; row < a.rows; ++row)
    for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k)
      for (std::int64_t j = 0; j < 6; ++j)
        expected.row(row)[j] =
            std::fma(a.values[k], b.row(a.col_indices[k])[j], expected.row(row)[j]);
  CHECK(wide->emulate(*packed, b, hopper).values == expected.values);
  CHECK(tall_kernel({})->emulate(*packed, b, hopper).values != expected.values);
  b.row(7)[1] = 1e30f;  // beside elements of the order of one
  CHECK(tall_kernel({})->emulate(*packed, b, hopper).values ==
        wide->emulate(*packed, b, hopper).values);
}

TEST_CASE("an infinity of B reaches the rows of a window by tall_spmm, and padding does not") {
  const CsrMatrix a = random_sparse(140, 40, 0.05, 5);
  DenseMatrix b = random_dense(40, 3, 6);
  b.row(7)[1] = std::numeric_limits<float>::infinity();
  const auto packed = pack_tall(a);
  const auto& tall = packed_as<TallTiles>(*packed);
  const DenseMatrix c = tall_kernel({{"storage", std::string("fp16")}})
                            ->emulate(*packed, b, find_generation("hopper"));
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const std::int64_t window = row / kWindowRows;
    bool reached = false;
    for (std::int64_t i = std::int64_t{tall.window_offset[window]} * kTileCols;
         i < std::int64_t{tall.window_offset[window + 1]} * kTileCols; ++i)
      reached |= tall.tile_cols[i] == 7;
    CHECK(std::isfinite(c.row(row)[1]) == !reached);
    CHECK(std::isfinite(c.row(row)[0]));
  }
}

}  // namespace
}  // namespace tessera
