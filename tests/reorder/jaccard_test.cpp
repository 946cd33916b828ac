// The order by 1-SA: worked examples, the paper's scan written down plainly, blocks and both sides.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"
#include "tests/reorder_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

Params::Given given(double tau, const std::string& method, std::int64_t block_cols = 1,
                    std::int64_t candidates = 32) {
  return {{"tau", tau}, {"method", method}, {"block_cols", block_cols}, {"candidates", candidates}};
}

Order jaccard(const CsrMatrix& matrix, const Params::Given& given) {
  return Registry<Reordering>::instance().make("jaccard", given)->order(matrix);
}

/// The paper's greedy scan, for sets of block columns.
std::vector<std::int32_t> scanned(const CsrMatrix& matrix, double tau, std::int32_t block_cols) {
  const auto set_of = [&](std::int32_t row) {
    std::set<std::int32_t> set;
    for (const std::int32_t col : matrix.row_cols(row)) set.insert(col / block_cols);
    return set;
  };
  std::vector<std::int32_t> order, empty;
  std::vector<bool> done(matrix.rows, false);
  for (std::int32_t seed = 0; seed < matrix.rows; ++seed) {
    std::set<std::int32_t> pattern = set_of(seed);
    if (pattern.empty()) empty.push_back(seed);
    if (done[seed] || pattern.empty()) continue;
    order.push_back(seed);
    for (std::int32_t row = seed + 1; row < matrix.rows; ++row) {
      const std::set<std::int32_t> cols = set_of(row);
      std::set<std::int32_t> either = pattern;
      either.insert(cols.begin(), cols.end());
      const auto both = static_cast<double>(pattern.size() + cols.size() - either.size());
      const auto all = static_cast<double>(either.size());
      if (done[row] || cols.empty() || (all - both) / all >= tau) continue;
      done[row] = true;
      order.push_back(row);
      pattern = either;
    }
  }
  order.insert(order.end(), empty.begin(), empty.end());
  return order;
}

TEST_CASE("1-SA scans forward, merges patterns and opens a group at the first row that is left") {
  const CsrMatrix a = pattern_matrix(6, 9,
                                     {{0, 1, 2, 3},  // opens a group
                                      {0, 1, 2},     // distance 1/4
                                      {7, 8},        // nothing in common
                                      {3, 4, 5},     // distance 5/6; 4/6 once row 4 has joined
                                      {2, 3, 4},     // distance 3/5
                                      {4, 5}});      // distance 5/6; to row 3: 1/3
  for (const char* method : {"exact", "bounded"}) {
    CAPTURE(std::string(method));

    CHECK(jaccard(a, given(0.7, method)).rows == Permutation({0, 1, 4, 2, 3, 5}));
    CHECK(jaccard(a, given(0.35, method)).rows == Permutation({0, 1, 2, 3, 5, 4}));
    CHECK(jaccard(a, given(0.25, method)).rows.is_identity());  // below, not at, tau
    CHECK(jaccard(a, given(0, method)).rows.is_identity());
  }
}

TEST_CASE("1-SA compares blocks of columns and puts rows without nonzeros last") {
  const CsrMatrix a = pattern_matrix(5, 8, {{0, 1}, {}, {4}, {2, 3}, {5, 7}});

  CHECK(jaccard(a, given(0.8, "bounded", 4)).rows == Permutation({0, 3, 2, 4, 1}));
  CHECK(jaccard(a, given(0.8, "bounded", 1)).rows == Permutation({0, 2, 3, 4, 1}));
  CHECK(jaccard(a, given(0.8, "bounded", 1024)).rows == Permutation({0, 2, 3, 4, 1}));
}

TEST_CASE("1-SA is the paper's scan, bounded or not, until the bound takes effect") {
  for (const double tau : {0.3, 0.5, 0.8, 1.0}) {
    for (const std::int32_t block_cols : {1, 3}) {
      const CsrMatrix a = random_sparse(150, 60, 0.08, static_cast<std::uint64_t>(10 * tau));
      CAPTURE(tau);
      CAPTURE(block_cols);

      const Permutation paper(scanned(a, tau, block_cols));

      CHECK(jaccard(a, given(tau, "exact", block_cols)).rows == paper);
      CHECK(jaccard(a, given(tau, "bounded", block_cols, 150)).rows == paper);
      if (tau == 0.8) CHECK(jaccard(a, given(tau, "bounded", block_cols, 1)).rows != paper);
    }
  }
}

TEST_CASE("1-SA bounded is nearly as good as exact on communities") {
  const CsrMatrix a = shuffled_communities();

  const double exact = mean_nnz_tc(a, "jaccard", given(0.8, "exact"));
  const double bounded = mean_nnz_tc(a, "jaccard", given(0.8, "bounded", 1, 8));

  CHECK(exact > 1.3 * mean_nnz_tc(a, "none"));
  CHECK(bounded > 0.98 * exact);
  CHECK(mean_nnz_tc(a, "jaccard") > 0.98 * exact);
}

TEST_CASE("1-SA groups the columns in the same way when both sides move") {
  const CsrMatrix a = pattern_matrix(4, 4, {{0, 2}, {1, 3}, {0, 2}, {1, 3}});
  Params::Given both = given(0.8, "bounded");
  both["apply"] = std::string("both");

  const Order order = jaccard(a, both);

  CHECK(order.rows == Permutation({0, 2, 1, 3}));
  REQUIRE(order.cols);
  CHECK(*order.cols == Permutation({0, 2, 1, 3}));
  CHECK(!jaccard(a, given(0.8, "bounded")).cols);
}

TEST_CASE("1-SA on both sides leaves fewer blocks of 16 x 16 than on rows alone") {
  const CsrMatrix a = shuffled_communities();
  const auto blocks = [&](const std::string& sides) {
    const Order order = jaccard(a, {{"apply", sides}});
    return statistics(apply(a, order)).tiles.back().tiles;  // 8x8, 16x8, 16x16
  };

  CHECK(static_cast<double>(blocks("both")) < 0.9 * static_cast<double>(blocks("rows")));
}

TEST_CASE("1-SA orders awkward shapes and hubs, and ends when stopped") {
  const CsrMatrix a = shuffled_communities();
  const Params::Given both{{"apply", std::string("both")}, {"block_cols", std::int64_t{16}}};

  check_awkward_shapes("jaccard");
  check_awkward_shapes("jaccard", both);
  check_awkward_shapes("jaccard", {{"method", std::string("exact")}});
  check_hub("jaccard");
  check_hub("jaccard", both);

  CHECK(!jaccard(a, {}).rows.is_identity());
  CHECK(jaccard(a, {{"time_limit_s", 1e-9}}).rows.is_identity());
}

TEST_CASE("a stopped 1-SA keeps its groups so far") {
  const CsrMatrix a = shuffled_communities();
  int asked = 0;
  Watch watch([&] { return ++asked > 100; });

  const Order order = Registry<Reordering>::instance().make("jaccard")->order(a, watch);

  const Permutation all = jaccard(a, {}).rows;
  const auto whole = all.old_of_new(), cut = order.rows.old_of_new();
  CHECK(watch.stopped());
  CHECK(std::equal(cut.begin(), cut.begin() + 100, whole.begin()));
  CHECK(std::is_sorted(cut.end() - 100, cut.end()));
  CHECK(!std::is_sorted(cut.begin(), cut.begin() + 100));
}

}  // namespace
}  // namespace tessera
