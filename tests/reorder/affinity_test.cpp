// The affinity order: chains small enough for paper, awkward shapes, and communities found again.
#include <doctest/doctest.h>

#include <algorithm>

#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"
#include "tests/reorder_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

const Params::Given kInFileOrder{{"base", std::string("none")}};

Params::Given by_window(std::int64_t window_rows) {
  return {{"base", std::string("none")},
          {"score", std::string("window")},
          {"window_rows", window_rows}};
}

Permutation affinity(const CsrMatrix& matrix, const Params::Given& given) {
  const Order order = Registry<Reordering>::instance().make("affinity", given)->order(matrix);
  CHECK(!order.cols);
  return order.rows;
}

TEST_CASE("affinity follows the last row, takes ties in base order and starts again without any") {
  const CsrMatrix a = pattern_matrix(6, 9,
                                     {{0, 1, 2},     // first of the base order
                                      {3, 4},        // nothing in common with 0: after the chain
                                      {2, 5, 6},     // one column of row 0, two of row 3
                                      {0, 1, 5, 6},  // two columns of row 0: second
                                      {7, 8},        // alone: last
                                      {5, 6, 7}});   // two columns of row 3, after row 2 by tie
  // 0 -> 3 (two) -> 2 and 5 tie at two, 2 first -> 5 (two) -> 4 (one: 7) -> none left: 1.
  CHECK(affinity(a, kInFileOrder) == Permutation({0, 3, 2, 5, 4, 1}));
}

TEST_CASE("affinity with score = window compares with the whole row window") {
  // Row 2 shares one column with row 1, row 3 shares one with each of rows 0 and 1.
  const CsrMatrix a = pattern_matrix(4, 9, {{0, 1, 2, 3}, {2, 3, 4, 5}, {5, 6}, {0, 4}});

  CHECK(affinity(a, kInFileOrder) == Permutation({0, 1, 2, 3}));
  CHECK(affinity(a, by_window(4)) == Permutation({0, 1, 3, 2}));
  CHECK(affinity(a, by_window(1)) == affinity(a, kInFileOrder));
}

TEST_CASE("affinity counts a column of the row window once, even when several rows hold it") {
  // Rows 0 and 1 both hold column 0, the only one that row 2 shares with them; row 3 shares two.
  const CsrMatrix a = pattern_matrix(4, 6, {{0, 1, 2}, {0, 1, 3}, {0, 5}, {2, 3}});

  CHECK(affinity(a, by_window(4)) == Permutation({0, 1, 3, 2}));
}

TEST_CASE("affinity breaks ties in base order or by fewest columns") {
  const CsrMatrix a = pattern_matrix(3, 5, {{0, 1}, {1, 2, 3}, {0, 4}});
  Params::Given given = kInFileOrder;

  CHECK(affinity(a, given) == Permutation({0, 1, 2}));
  given["ties"] = std::string("short");
  CHECK(affinity(a, given) == Permutation({0, 2, 1}));
}

TEST_CASE("affinity places identical rows as one") {
  // Row 1 shares one column with row 0, as does row 2; rows 0, 3 and 5 are the same.
  const CsrMatrix a = pattern_matrix(6, 5, {{0, 1}, {1, 2}, {0, 3}, {0, 1}, {2, 4}, {0, 1}});

  CHECK(affinity(a, kInFileOrder) == Permutation({0, 3, 5, 1, 4, 2}));
}

TEST_CASE("affinity without a bound is the exhaustive search for the most common row") {
  const CsrMatrix a = random_sparse(120, 60, 0.08, 31);
  const auto common = [&](std::int32_t i, std::int32_t j) {
    std::vector<std::int32_t> both;
    std::ranges::set_intersection(a.row_cols(i), a.row_cols(j), std::back_inserter(both));
    return both.size();
  };
  std::vector<std::int32_t> expected{0};
  std::vector<bool> placed(a.rows, false);
  placed[0] = true;
  while (static_cast<std::int32_t>(expected.size()) < a.rows) {
    std::int32_t best = -1;
    for (std::int32_t row = 0; row < a.rows; ++row)
      if (!placed[row] &&
          (best < 0 || common(expected.back(), row) > common(expected.back(), best)))
        best = row;
    placed[best] = true;
    expected.push_back(best);
  }
  Params::Given given = kInFileOrder;
  given["candidates"] = std::int64_t{120};
  given["merge_identical"] = false;

  CHECK(affinity(a, given) == Permutation(expected));
}

TEST_CASE("affinity orders awkward shapes, equally on one thread and on three") {
  check_awkward_shapes("affinity");
  check_awkward_shapes("affinity", by_window(8));
}

TEST_CASE("affinity packs shuffled communities 1.25 times as full, by windows fuller still") {
  const CsrMatrix shuffled = shuffled_communities();

  const double last = mean_nnz_tc(shuffled, "affinity");
  const double window = mean_nnz_tc(shuffled, "affinity", {{"score", std::string("window")}});

  CHECK(last > 1.25 * mean_nnz_tc(shuffled, "none"));
  CHECK(window > last);
}

TEST_CASE("affinity orders a hub that is joined to every vertex") {
  check_hub("affinity");
  check_hub("affinity", {{"score", std::string("window")}});
}

}  // namespace
}  // namespace tessera
