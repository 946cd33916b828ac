// Gorder: matrices small enough for paper, awkward shapes, communities, hubs and time limits.
#include <doctest/doctest.h>

#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"
#include "tests/reorder_support.hpp"

namespace tessera {
namespace {

Permutation gorder_rows(const CsrMatrix& matrix, const Params::Given& given = {}) {
  return Registry<Reordering>::instance().make("gorder", given)->order(matrix).rows;
}

TEST_CASE("gorder follows the longest row with the row that shares most columns") {
  // Columns shared with row 2, the longest: row 0 one, row 3 two, row 1 none, row 4 one. Row 3
  // follows. To rows 2 and 3 together: row 0 one, row 4 one and two, so row 4; row 1 shares
  // nothing with anybody and comes last.
  const CsrMatrix rectangle = pattern_matrix(5, 9, {{0}, {8}, {0, 1, 2, 3}, {2, 3, 4}, {3, 4, 5}});

  const Order order = Registry<Reordering>::instance().make("gorder")->order(rectangle);

  CHECK(order.rows == Permutation({2, 3, 4, 0, 1}));
  CHECK(!order.cols);
}

TEST_CASE("gorder compares with the rows of its window and no others") {
  // Row 0 is the longest and row 1 shares three columns with it. Then row 2 shares two with row 0,
  // row 3 one with row 1: which is next depends on whether row 0 still counts.
  const CsrMatrix rectangle =
      pattern_matrix(4, 9, {{0, 1, 2, 3, 4, 5}, {0, 1, 2, 7, 8}, {3, 4}, {7}});

  CHECK(gorder_rows(rectangle, {{"window", std::int64_t{2}}}) == Permutation({0, 1, 2, 3}));
  CHECK(gorder_rows(rectangle, {{"window", std::int64_t{1}}}) == Permutation({0, 1, 3, 2}));
}

TEST_CASE("gorder counts a directed nonzero from both of its ends") {
  // No two rows share a column. Row 3, the longest, leads to 1; 2 leads to 3; 0 stands alone.
  const CsrMatrix directed = pattern_matrix(4, 4, {{}, {}, {3}, {1, 2}});

  const Permutation rows = gorder_rows(directed);

  // Row 2 is joined to 3 in both directions, row 1 in one.
  CHECK(rows == Permutation({3, 2, 1, 0}));
}

TEST_CASE("gorder counts no siblings through columns longer than hub_length") {
  // Column 0 joins rows 0, 1 and 2, column 4 rows 1 and 2, column 1 rows 0 and 3.
  const CsrMatrix hub = pattern_matrix(4, 6, {{0, 1, 2, 3}, {0, 4}, {0, 4}, {1}});

  // Without column 0 row 3 alone shares anything with row 0; without any, nobody does.
  CHECK(gorder_rows(hub, {{"hub_length", std::int64_t{2}}}) == Permutation({0, 3, 1, 2}));
  CHECK(gorder_rows(hub, {{"hub_length", std::int64_t{1}}}) == Permutation({0, 1, 2, 3}));
}

TEST_CASE("gorder with apply = symmetric moves the columns of a square matrix with its rows") {
  const CsrMatrix matrix = random_sparse(50, 50, 0.1, 9);
  const auto order = [&](const std::string& apply) {
    return Registry<Reordering>::instance().make("gorder", {{"apply", apply}})->order(matrix);
  };

  CHECK(order("symmetric").cols == order("symmetric").rows);
  CHECK(!order("rows").cols);
  CHECK(order("rows").rows == order("symmetric").rows);
}

TEST_CASE("gorder orders awkward shapes, equally on one thread and on three") {
  check_awkward_shapes("gorder");
}

TEST_CASE("gorder finds shuffled communities again: 1.25 times the nonzeros of a tile") {
  const CsrMatrix shuffled = shuffled_communities();

  CHECK(mean_nnz_tc(shuffled, "gorder") > 1.25 * mean_nnz_tc(shuffled, "none"));
}

TEST_CASE("gorder orders a hub that is joined to every vertex") { check_hub("gorder"); }

TEST_CASE("a stopped gorder has placed some rows and keeps the others in their order") {
  const CsrMatrix shuffled = shuffled_communities();
  Watch watch([] { return true; });

  const Order order =
      Registry<Reordering>::instance()
          .make("gorder", {{"hub_length", std::int64_t{4096}}, {"window", std::int64_t{1024}}})
          ->order(shuffled, watch);

  const auto rows = order.rows.old_of_new();
  CHECK(watch.stopped());
  CHECK(!order.rows.is_identity());
  CHECK(std::is_sorted(rows.end() - 100, rows.end()));
}

}  // namespace
}  // namespace tessera
