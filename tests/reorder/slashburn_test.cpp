// SlashBurn: a worked example, hubs and fragments, and what it refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "formats/base/registry.hpp"
#include "formats/generators/shuffle.hpp"
#include "formats/io/source.hpp"
#include "formats/statistics/statistics.hpp"
#include "reorder/reordering.hpp"
#include "tests/reorder_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

Order slashburn(const CsrMatrix& a, double hub_share = 0.005) {
  return Registry<Reordering>::instance().make("slashburn", {{"hub_share", hub_share}})->order(a);
}

/// The matrix with a nonzero from each row to the columns given, one direction only.
CsrMatrix directed(const std::vector<std::vector<std::int32_t>>& rows) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  for (const auto& row : rows) {
    cols.insert(cols.end(), row.begin(), row.end());
    offsets.push_back(static_cast<std::int64_t>(cols.size()));
  }
  const auto n = static_cast<std::int32_t>(rows.size());
  DenseMatrix values = random_dense(1, static_cast<std::int64_t>(cols.size()), 3);
  return {n, n, std::move(offsets), std::move(cols), std::move(values.values)};
}

TEST_CASE("slashburn takes the hub out, keeps the largest rest and puts the others at the back") {
  // 4 is the hub, of 0, 1, 2, 6 and 8. Without it are left 0; 1-5; and 2-3, 2-6, 2-7, 8-7.
  const CsrMatrix a = directed({{}, {5}, {3, 6, 7}, {}, {0, 1, 2, 6, 8}, {}, {}, {}, {7}});

  const Order order = slashburn(a, 0.1);  // one hub a round

  // Then 2 is the hub, 3 and 6 fall off and 7-8 is left, then 7, then 8. The back grows towards
  // the front, the smallest component of a round last.
  CHECK(order.rows == Permutation({4, 2, 7, 8, 6, 3, 1, 5, 0}));
  CHECK(order.cols == order.rows);
}

TEST_CASE("slashburn gains on a shuffled graph with hubs and leaves fewer tiles") {
  const CsrMatrix mixed =
      shuffled(load_matrix("rmat(scale=12)", false).matrix, ShuffledSides::kSymmetric, 4);

  const Order order = slashburn(mixed);

  const MatrixStatistics before = statistics(mixed), after = statistics(apply(mixed, order));
  CHECK(after.windows[0].mean_nnz_tc > 1.05 * before.windows[0].mean_nnz_tc);
  CHECK(after.tiles[0].tiles < 0.8 * static_cast<double>(before.tiles[0].tiles));
  const ThreadCount three(3);
  CHECK(slashburn(mixed).rows == order.rows);
}

TEST_CASE("slashburn takes a star, matrices without edges and one row, and refuses rectangles") {
  std::vector<std::vector<std::int32_t>> star(200000);
  for (std::int32_t leaf = 0; leaf < 199999; ++leaf) star[199999].push_back(leaf);

  CHECK(slashburn(directed(star)).rows.old_of_new()[0] == 199999);
  CHECK(slashburn(random_sparse(9, 9, 0, 1)).rows.size() == 9);
  CHECK(slashburn(random_sparse(1, 1, 1, 1)).rows.size() == 1);
  CHECK(slashburn(random_sparse(50, 50, 0.03, 2), 1).rows.size() == 50);
  CHECK(slashburn(CsrMatrix{}).rows.size() == 0);
  CHECK_THROWS_AS(slashburn(random_sparse(9, 8, 0.5, 1)), Unsupported);
}

TEST_CASE("slashburn stopped before its first round orders by degree") {
  const CsrMatrix a = shuffled_communities();
  Watch watch([] { return true; });

  const auto order = Registry<Reordering>::instance().make("slashburn")->order(a, watch);

  CHECK(watch.stopped());
  const auto rows = order.rows.old_of_new();
  CHECK(std::ranges::is_sorted(rows, std::ranges::greater(),
                               [&](std::int32_t row) { return a.row_length(row); }));
  CHECK(order.rows != Registry<Reordering>::instance().make("slashburn")->order(a).rows);
}

}  // namespace
}  // namespace tessera
