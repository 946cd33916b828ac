// Products under a mask on the host: C has the mask's cells, every kernel emulates them, and the
// tasks of row_spgemm under a mask fit the shared memory of their class.

#include "kernels/spgemm/row/masked.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "experiments/backends/check_result.hpp"
#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/tensor_core/tensor_core.hpp"
#include "tests/spgemm_choices.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace row_spgemm;

TEST_CASE("C under a mask has the mask's cells, and zero where C has none") {
  const CsrMatrix c = random_sparse(60, 70, 0.2, 1), mask = random_sparse(60, 70, 0.3, 2);
  std::map<std::pair<int, int>, float> cells;
  for (int row = 0; row < c.rows; ++row)
    for (std::int64_t k = c.row_offsets[row]; k < c.row_offsets[row + 1]; ++k)
      cells[{row, c.col_indices[k]}] = c.values[k];

  const CsrMatrix masked = mask_product(c, mask);

  validate(masked);
  CHECK(std::ranges::equal(masked.col_indices, mask.col_indices));
  CHECK(std::ranges::equal(masked.row_offsets, mask.row_offsets));
  int hits = 0;
  for (int row = 0; row < mask.rows; ++row)
    for (std::int64_t k = mask.row_offsets[row]; k < mask.row_offsets[row + 1]; ++k) {
      const auto found = cells.find({row, mask.col_indices[k]});
      REQUIRE(masked.values[k] == (found == cells.end() ? 0.0f : found->second));
      hits += found != cells.end();
    }
  CHECK(hits > 100);
  CHECK(hits < mask.nnz());
  CHECK_THROWS_AS(mask_product(c, random_sparse(60, 71, 0.1, 3)), Error);
}

TEST_CASE("every kernel's emulation under a mask is inside the bound, and a changed cell is not") {
  const CsrMatrix a = random_sparse(90, 80, 0.1, 4), b = random_sparse(80, 110, 0.1, 5),
                  mask = random_sparse(90, 110, 0.2, 6);
  const std::string generation = "hopper";
  for (const SpgemmChoice& choice : spgemm_choices()) {
    CAPTURE(choice.kernel);
    const auto kernel = Registry<SpgemmKernel>::instance().make(choice.kernel, choice.params);
    CsrMatrix c;
    try {
      c = kernel->emulate_masked(a, b, mask, find_generation(generation));
    } catch (const Unsupported&) {
      continue;
    }
    const SparseComputation computation{*kernel, a, b, generation, &mask};
    CHECK(check_result(computation, c).reason == "");
    std::vector<float> values(c.values.begin(), c.values.end());
    values[values.size() / 2] += 1;
    const CsrMatrix wrong{c.rows, c.cols, c.row_offsets, c.col_indices, values};
    CHECK(check_result(computation, wrong).reason.starts_with("1 of "));
    CHECK(check_result(computation, random_sparse(90, 110, 0.2, 7)).reason ==
          "C has another pattern than its mask");
  }
}

TEST_CASE("mixed_spgemm has the bits of its rows under a mask, and of its path after the product") {
  const CsrMatrix a = random_sparse(90, 90, 0.1, 4), mask = random_sparse(90, 90, 0.2, 6);
  const Generation& hopper = find_generation("hopper");
  const auto emulated = [&](const Params::Given& params) {
    return Registry<SpgemmKernel>::instance()
        .make("mixed_spgemm", params)
        ->emulate_masked(a, a, mask, hopper);
  };
  const auto text = [](const char* of) { return ParamValue{std::string(of)}; };
  const CsrMatrix rows = mask_product(multiply_rows(a, a), mask);
  const CsrMatrix merged = mask_product(
      Registry<SpgemmKernel>::instance().make("merge_spgemm")->emulate(a, a, hopper), mask);

  CHECK(emulated({}) == rows);
  CHECK(emulated({{"path", text("rows")}, {"masking", text("after")}}) == rows);
  CHECK(emulated({{"path", text("merge")}}) == merged);
  CHECK(emulated({{"path", text("merge")}, {"masking", text("after")}}) == merged);
}

TEST_CASE("the tasks of a row of a mask cover its columns once and fit their class") {
  RandomSequence random(13);
  const auto up_to = [&](double most) {
    return static_cast<std::int64_t>(std::exp(random.unit() * std::log(most)));
  };
  int sliced = 0, words = 0, small = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t nonzeros = up_to(100'000), products = nonzeros * up_to(5000);
    const auto first = static_cast<std::int32_t>(up_to(1e6));
    const auto width = static_cast<std::int32_t>(up_to(4e6));
    const MaskRow mask{std::min<std::int64_t>(up_to(300'000), width), first, first + width - 1};
    const RowFacts facts{.products = products, .nonzeros = static_cast<std::int32_t>(nonzeros)};
    const RowPlan plan = plan_masked_row(7, facts, mask, thresholds_for(1 << 20, 8, 1));
    REQUIRE(plan.whole.row == 7);
    if (plan.whole.storage == MarkStorage::kLanes) {
      REQUIRE(std::max(products, nonzeros) <= kLeastLanes << plan.whole.small_size);
      REQUIRE(mask.cells <= kMostCellsOfLanes);
      ++small;
      continue;
    }
    std::int64_t next = mask.first / kWordCols;
    for (int slice = 0; slice < plan.slices; ++slice) {
      const row_spgemm::Task task = slice_of(plan.whole, plan.slice_words, slice);
      REQUIRE(task.first_word == next);
      REQUIRE(task.words >= 1);
      REQUIRE(task.is_sliced == (plan.slices > 1));
      const std::int64_t cells = cells_of(task, mask.cells);
      REQUIRE(cells >= std::min(mask.cells, std::int64_t{task.words} * kWordCols));
      REQUIRE(sum_bytes(task, cells) <= launch_of(masked_class(task, mask.cells)).bytes);
      next += task.words;
    }
    REQUIRE(next == mask.last / kWordCols + 1);
    sliced += plan.slices > 1;
    words += plan.whole.storage == MarkStorage::kWords;
  }
  CHECK(std::min({sliced, words, small}) > 100);
}

TEST_CASE("a row without cells is a task without nonzeros, whatever its products") {
  const RowPlan plan = plan_masked_row(3, {.products = 1 << 20, .begin = 5, .nonzeros = 4000}, {},
                                       thresholds_for(1, 1, 1));
  CHECK(plan.slices == 1);
  CHECK(plan.whole.nonzeros == 0);
  CHECK(masked_class(plan.whole, 0) == 0);
}

}  // namespace
}  // namespace tessera
