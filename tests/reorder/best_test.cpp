// Our own order: its swaps and pairs on windows small enough for paper, and what it promises.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "formats/base/registry.hpp"
#include "reorder/window_columns.hpp"
#include "reorder/window_pairs.hpp"
#include "reorder/window_swaps.hpp"
#include "tests/reorder_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using Indices = std::vector<std::int32_t>;

Indices natural(const CsrMatrix& matrix) {
  Indices order(matrix.rows);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

template <class Matrix>
std::int64_t blocks(const Matrix& matrix, const Indices& order, std::int32_t height) {
  return count_tc_blocks(matrix, {order, height});
}

RowPattern pattern_of(const CsrMatrix& matrix) {
  return ColumnNumbers().number(matrix, natural(matrix));
}

Order best(const CsrMatrix& matrix, const Params::Given& given = {}) {
  return Registry<Reordering>::instance().make("best", given)->order(matrix);
}

TEST_CASE("the columns of a window are those of its rows, each once, the last window short") {
  // Column 8 is the sixth that is met: it is number 5.
  const CsrMatrix a = pattern_matrix(5, 9, {{0, 1}, {1, 2}, {3}, {3}, {4, 8}});
  const Indices order{4, 0, 1, 2, 3};
  const Windows windows{order, 2};

  REQUIRE(windows.count() == 3);
  CHECK(windows.whole() == 2);
  CHECK(count_window_columns(pattern_of(a), windows) == Indices{4, 3, 1});
  const Indices windows_of[] = {{0}, {0, 1}, {1}, {1, 2}, {0}, {0}};
  for (const int threads : {1, 3}) {
    const ThreadCount count(threads);
    const Inverted found = windows_of_columns(pattern_of(a), windows);
    for (std::int32_t col = 0; col < 6; ++col)
      CHECK(Indices(found.of(col).begin(), found.of(col).end()) == windows_of[col]);
  }
  CHECK(count_tc_blocks(a, windows) == 3);
}

TEST_CASE("TC blocks of an order are those that the statistics count") {
  const CsrMatrix a = random_sparse(1003, 700, 0.02, 5);

  const auto windows = statistics(a).windows;

  for (const int height : {8, 16})
    CHECK(blocks(a, natural(a), height) ==
          std::ranges::find(windows, height, &WindowCount::height)->tc_blocks);
}

TEST_CASE("a swap moves two rows to the windows of their columns") {
  // Windows of two: rows 0 and 3 share nine columns, rows 2 and 1 nine others.
  const Indices left{0, 1, 2, 3, 4, 5, 6, 7, 8}, right{9, 10, 11, 12, 13, 14, 15, 16, 17};
  const CsrMatrix a = pattern_matrix(4, 18, {left, right, right, left});
  Indices order = natural(a);
  Watch watch;

  const std::int64_t swaps =
      swap_rows(pattern_of(a), order, {.window_rows = 2, .passes = 1}, watch);

  CHECK(swaps == 1);
  CHECK(blocks(a, natural(a), 2) == 6);
  CHECK(blocks(a, order, 2) == 4);
}

TEST_CASE("a swap that saves no column is made when it empties a TC block") {
  // Windows of two rows: {0 .. 8} and {0 .. 6, 9, 10}, nine columns each, two blocks each. Rows 1
  // and 2 in each other's place make {0 .. 7} and {0 .. 6, 8, 9, 10}: as many columns, one block
  // less.
  const CsrMatrix a = pattern_matrix(
      4, 11, {{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 8}, {0, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 9, 10}});
  Indices order = natural(a);
  Watch watch;

  swap_rows(pattern_of(a), order, {.window_rows = 2, .passes = 1}, watch);

  CHECK(blocks(a, natural(a), 2) == 4);
  CHECK(blocks(a, order, 2) == 3);
}

TEST_CASE(
    "swaps never add a TC block in their last pass and are the same on any number of threads") {
  const CsrMatrix a = shuffled_communities();
  std::vector<Indices> orders;
  for (const int threads : {1, 3}) {
    const ThreadCount count(threads);
    Watch watch;
    Indices order = natural(a);

    const std::int64_t swaps = swap_rows(pattern_of(a), order, {.passes = 1}, watch);

    CHECK(swaps > 0);
    CHECK(blocks(a, order, 8) < blocks(a, natural(a), 8));
    CHECK(Permutation(order).size() == a.rows);
    orders.push_back(std::move(order));
  }
  CHECK(orders[0] == orders[1]);
}

TEST_CASE("windows that save blocks together become neighbours, the rest follows") {
  // Windows of one row. 0 and 3 are alike, 1 and 4 are, 2 has nobody.
  const CsrMatrix a = pattern_matrix(5, 12, {{0, 1, 2}, {4, 5}, {10}, {0, 1, 2, 3}, {4, 5, 6}});
  Watch watch;

  const Indices paired = pair_windows(pattern_of(a), natural(a), {.window_rows = 1}, watch);

  CHECK(paired == Indices{0, 3, 1, 4, 2});
}

TEST_CASE("best finds the communities of a shuffled graph, fuller than the affinity order") {
  const CsrMatrix communities = shuffled_communities();

  const double before = mean_nnz_tc(communities, "none");
  const double affinity = mean_nnz_tc(communities, "affinity");
  const double ours = mean_nnz_tc(communities, "best");

  CHECK(ours > 1.3 * before);
  CHECK(ours > 1.05 * affinity);
  CHECK(mean_nnz_tc(communities, "best", {{"window_rows", std::int64_t{16}}}, 16) >
        mean_nnz_tc(communities, "affinity", {}, 16));
}

TEST_CASE("best keeps the order of the file where nothing is better") {
  // Windows of eight equal rows: one block each, which no other order has.
  std::vector<Indices> rows(160);
  for (std::int32_t i = 0; i < 160; ++i)
    for (std::int32_t j = 0; j < 8; ++j) rows[i].push_back(i / 8 * 8 + j);
  const CsrMatrix blocks_of_eight = pattern_matrix(160, 160, rows);

  const Order order = best(blocks_of_eight);

  CHECK(order.chosen == "natural");
  CHECK(order.rows.is_identity());
  CHECK(best(shuffled_communities()).chosen == "filled, swapped");
}

TEST_CASE("best without the order of the file as a candidate always fills its own windows") {
  const CsrMatrix a = shuffled_communities();
  const CsrMatrix ordered = apply(a, best(a));

  const Order kept = best(ordered), filled = best(ordered, {{"keep_natural", false}});

  CHECK(kept.chosen.starts_with("natural"));
  CHECK(filled.chosen.starts_with("filled"));
  CHECK(!filled.rows.is_identity());
}

TEST_CASE("best is never worse than the order of the file with any steps turned off") {
  const CsrMatrix a = random_sparse(1000, 300, 0.01, 9);
  for (const std::int64_t passes : {0, 1, 3}) {
    for (const bool pairs : {false, true}) {
      const Order order = best(a, {{"swap_passes", passes}, {"pairs", pairs}});

      const auto rows = order.rows.old_of_new();
      CHECK(blocks(a, Indices(rows.begin(), rows.end()), 8) <= blocks(a, natural(a), 8));
    }
  }
}

TEST_CASE("best orders matrices of awkward shape, and with a hub, in stretches of any length") {
  check_awkward_shapes("best");
  check_awkward_shapes("best", {{"stretch_rows", std::int64_t{20}}});
  check_hub("best");
}

TEST_CASE("best gives the same order on any number of threads, from any order to begin with") {
  const CsrMatrix communities = shuffled_communities();
  const CsrMatrix hub = random_sparse(6000, 900, 0.004, 21);  // rows of similar length, wide ones
  for (const CsrMatrix* a : {&communities, &hub}) {
    std::optional<Permutation> alone;
    for (const int threads : {1, 2, 5, 16}) {
      const ThreadCount count(threads);
      const Permutation rows = best(*a).rows;
      if (!alone) alone = rows;
      CHECK(rows == *alone);
    }
  }
}

TEST_CASE("stretches are filled apart, the same on any number of threads") {
  const CsrMatrix a = shuffled_communities();
  const Params::Given given{{"stretch_rows", std::int64_t{500}}};
  const auto with = [&](int threads) {
    const ThreadCount count(threads);
    return best(a, given).rows;
  };

  const Permutation alone = with(1);

  CHECK(alone == with(4));
  CHECK(alone != best(a).rows);
}

TEST_CASE("best stopped at once still orders every row") {
  const CsrMatrix a = shuffled_communities();
  Watch watch([] { return true; });

  const Order order = Registry<Reordering>::instance().make("best")->order(a, watch);

  CHECK(watch.stopped());
  CHECK(order.rows.size() == a.rows);
}

}  // namespace
}  // namespace tessera
