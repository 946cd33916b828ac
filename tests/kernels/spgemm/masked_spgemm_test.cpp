// Products under a mask on the host: C has the mask's cells, every kernel emulates them, and the
// rows of row_spgemm under a mask fit their shared memory.

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
#include "tests/spgemm_operands.hpp"
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
  const Generation& hopper = find_generation("hopper");
  // Row 0 is heavy, so that a mask inside the product changes its sums.
  const CsrMatrix a = patterned(
      90, 90, 4, [](int row, int col) { return row == 0 || (row * 31 + col * 17) % 11 == 0; });
  const CsrMatrix mask = random_sparse(90, 90, 0.2, 6);
  const auto emulated = [&](const Params::Given& params) {
    return Registry<SpgemmKernel>::instance()
        .make("mixed_spgemm", params)
        ->emulate_masked(a, a, mask, hopper);
  };
  const auto text = [](const char* of) { return ParamValue{std::string(of)}; };
  const CsrMatrix inside = emulate_masked(a, a, mask);
  const CsrMatrix rows = mask_product(multiply_rows(a, a), mask);
  const CsrMatrix merged = mask_product(
      Registry<SpgemmKernel>::instance().make("merge_spgemm")->emulate(a, a, hopper), mask);

  REQUIRE_FALSE(inside == rows);
  CHECK(emulated({}) == inside);
  CHECK(emulated({{"path", text("rows")}}) == inside);
  CHECK(emulated({{"path", text("rows")}, {"masking", text("after")}}) == rows);
  CHECK(emulated({{"path", text("merge")}}) == merged);
  CHECK(emulated({{"path", text("merge")}, {"masking", text("after")}}) == merged);
}

/// C under a mask where the sums of heavy rows are made in parts, without a search for cells.
CsrMatrix in_parts(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& mask,
                   const std::vector<bool>& is_heavy) {
  std::vector<float> values;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    std::vector<std::vector<float>> parts(8, std::vector<float>(b.cols, 0.0f));
    for (std::int64_t i = 0; i < a.row_length(row); ++i) {
      const std::int64_t of_a = a.row_offsets[row] + i;
      std::vector<float>& sums = parts[is_heavy[row] ? i % 8 : 0];
      const std::int32_t k = a.col_indices[of_a];
      for (std::int64_t j = b.row_offsets[k]; j < b.row_offsets[k + 1]; ++j)
        sums[b.col_indices[j]] = std::fma(a.values[of_a], b.values[j], sums[b.col_indices[j]]);
    }
    for (const std::int32_t col : mask.row_cols(row)) {
      float sum = 0;
      for (const std::vector<float>& part : parts) sum += part[col];
      values.push_back(sum);
    }
  }
  return {mask.rows, mask.cols, mask.row_offsets, mask.col_indices, std::move(values)};
}

TEST_CASE("row_spgemm emulates a mask: heavy rows in parts, others as in the whole product") {
  // Row 0 is heavy by its cells, row 1 by its nonzeros of A, row 2 by its products.
  const CsrMatrix a = patterned(60, 2000, 8, [](int row, int col) {
    if (row == 1) return col < 400;
    if (row == 2) return col >= 1990;
    return col < 1990 && (row * 31 + col * 17) % 199 == 0;
  });
  const CsrMatrix b = patterned(2000, 900, 9, [](int row, int col) {
    return row >= 1990 ? col % 3 != 0 : (row * 7 + col * 13) % 89 == 0;
  });
  const CsrMatrix mask = patterned(60, 900, 10, [](int row, int col) {
    return row == 0 ? col % 5 != 0 : (row * 3 + col * 29) % 31 == 0;
  });
  const MaskedPlan plan = plan_masked(a.rows, a.nnz(), b.rows, b.nnz());
  std::vector<bool> is_heavy(60, false);
  is_heavy[0] = is_heavy[1] = is_heavy[2] = true;
  REQUIRE(mask.row_length(0) > kCellsOfWarp);
  REQUIRE(mask.row_length(1) <= kCellsOfWarp);
  REQUIRE(a.row_length(1) > plan.most_nonzeros());
  REQUIRE(a.row_length(2) <= plan.most_nonzeros());

  const CsrMatrix c = emulate_masked(a, b, mask);

  CHECK(c == in_parts(a, b, mask, is_heavy));
  CHECK_FALSE(c == in_parts(a, b, mask, std::vector<bool>(60, false)));
  const CsrMatrix whole = mask_product(multiply_rows(a, b), mask);
  CHECK_FALSE(c == whole);
  for (std::int64_t i = mask.row_offsets[3]; i < mask.nnz(); ++i)
    REQUIRE(c.values[i] == whole.values[i]);
}

TEST_CASE("a sample under a mask counts words of B, and those that hold a cell of the row") {
  // Each row of A meets rows 0 and 1 of B. Row 0 has columns in words 0, 0 and 2, row 1 in word 3.
  const CsrMatrix a = patterned(40, 2, 20, [](int, int) { return true; });
  const CsrMatrix b = patterned(2, 128, 21, [](int row, int col) {
    return row == 0 ? col == 1 || col == 31 || col == 64 : col == 100;
  });
  const auto sample_with = [&](auto is_cell) {
    return sample_masked(a, b, patterned(40, 128, 22, is_cell));
  };
  const auto expect = [](const MaskedSample& sample, int rows, int with_cells) {
    CHECK(sample.products == 4 * rows);
    CHECK(sample.words == 3 * rows);
    CHECK(sample.words_with_cells == with_cells * rows);
  };
  expect(sample_with([](int, int col) { return col == 31 || col == 63; }), 40, 1);
  expect(sample_with([](int, int col) { return col % 2 == 0; }), 40, 2);  // not of word 0
  expect(sample_with([](int row, int col) { return row < 10 && col < 128; }), 10, 3);
  expect(sample_with([](int, int) { return false; }), 0, 0);
  // Many rows, and long ones: the sample has a share of them.
  const CsrMatrix large = random_sparse(3000, 3000, 0.05, 23);
  const MaskedSample sample = sample_masked(large, large, large);
  CHECK(sample.products > 100'000);
  CHECK(sample.products < (1 << 20) + 3000 * 3000);
}

TEST_CASE("row_spgemm under a mask goes by words where few of them hold cells") {
  // Blocks whose rows have every `apart`-th of the columns, beginning at `first`.
  const auto blocks = [](int apart, int first) {
    return patterned(640, 640 * apart, 24, [=](int row, int col) {
      return row / 64 == col / apart / 64 && col % apart == first;
    });
  };
  const CsrMatrix a = blocks(1, 0), b = blocks(8, 0);
  CHECK(can_go_by_words(plan_masked(a.rows, a.nnz(), b.rows, b.nnz())));
  CHECK_FALSE(words_are_faster(sample_masked(a, b, b)));
  CHECK(words_are_faster(sample_masked(a, b, blocks(8, 1))));  // it misses all products
  // Words of one nonzero each save nothing.
  CHECK_FALSE(words_are_faster(sample_masked(a, blocks(32, 0), blocks(32, 1))));
  CHECK_FALSE(can_go_by_words(plan_masked(640, 640, 640, 640)));
}

TEST_CASE("a row under a mask has room for its cells, whatever its lengths") {
  RandomSequence random(13);
  const auto up_to = [&](double most) {
    return static_cast<std::int64_t>(std::exp(random.unit() * std::log(most)));
  };
  std::map<MaskedWay, int> ways;
  for (int i = 0; i < 20'000; ++i) {
    const MaskedPlan plan = plan_masked(up_to(1e6), up_to(1e7), up_to(1e6), up_to(1e7));
    const std::int64_t cells = up_to(5000), nonzeros = up_to(5000), products = nonzeros * up_to(99);
    const MaskedWay way = plan.way(cells, nonzeros, products);
    ++ways[way];
    REQUIRE((plan.lanes == 4 || plan.lanes == 8 || plan.lanes == 16 || plan.lanes == 32));
    REQUIRE(plan.most_products >= 256);
    if (way == MaskedWay::kLanes) REQUIRE(cells <= kCellsOfLane * plan.lanes);
    if (way == MaskedWay::kWarp) {
      REQUIRE(cells <= kCellsOfWarp);
      REQUIRE(plan.lanes < kWarpLanes);
    }
    if (way != MaskedWay::kHeavy) {
      REQUIRE(nonzeros <= plan.most_nonzeros());
      REQUIRE(products <= plan.most_products);
    }
  }
  for (const MaskedWay way : {MaskedWay::kLanes, MaskedWay::kWarp, MaskedWay::kHeavy})
    CHECK(ways[way] > 300);
}

}  // namespace
}  // namespace tessera
