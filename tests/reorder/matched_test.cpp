// The order `matched`: cases small enough for paper, awkward shapes, and its quality beside `best`.
// tests/reorder/gpu_orders_device_test.cpp compares it with its device half.
#include <doctest/doctest.h>

#include <set>

#include "reorder/reordering.hpp"
#include "tests/reorder_support.hpp"

namespace tessera {
namespace {

Order matched(const CsrMatrix& matrix, const Params::Given& given = {}) {
  return Registry<Reordering>::instance().make("matched", given)->order(matrix);
}

TEST_CASE("matched puts rows that share columns in one window") {
  // Rows 0, 2, ... 14 hold columns 0 to 7, rows 1, 3, ... 15 columns 8 to 15.
  std::vector<std::vector<std::int32_t>> rows(16);
  for (std::int32_t row = 0; row < 16; ++row)
    for (std::int32_t col = 0; col < 8; ++col) rows[row].push_back(row % 2 * 8 + col);

  const Order order = matched(pattern_matrix(16, 16, rows));

  CHECK(order.chosen == "matched");
  const auto found = order.rows.old_of_new();
  std::set<std::int32_t> parities;
  for (int i = 0; i < 8; ++i) parities.insert(found[i] % 2);
  CHECK(parities.size() == 1);
}

TEST_CASE("matched keeps the order of the file where it has no more TC blocks") {
  std::vector<std::vector<std::int32_t>> rows(32);
  for (std::int32_t row = 0; row < 32; ++row)
    for (std::int32_t col = 0; col < 8; ++col) rows[row].push_back(row / 8 * 8 + col);

  const Order order = matched(pattern_matrix(32, 32, rows));

  CHECK(order.chosen == "natural");
  CHECK(order.rows.is_identity());
}

TEST_CASE("matched orders awkward shapes, equally on one thread and on three") {
  check_awkward_shapes("matched");
  check_awkward_shapes("matched", {{"keep_natural", false}});
}

TEST_CASE("matched packs shuffled communities nearly as full as best") {
  const CsrMatrix shuffled = shuffled_communities();

  CHECK(mean_nnz_tc(shuffled, "matched") > 0.95 * mean_nnz_tc(shuffled, "best"));
  CHECK(mean_nnz_tc(shuffled, "matched", {}, 16) > 0.95 * mean_nnz_tc(shuffled, "best", {}, 16));
}

/// 16,384 vertices, hundreds of which have more candidates than the smaller tables have slots, and
/// some more than a table of 16,384 holds.
CsrMatrix graph_with_hubs() {
  return Registry<Generator>::instance()
      .make("rmat", {{"scale", std::int64_t{14}}, {"edge_factor", std::int64_t{48}}})
      ->generate();
}

TEST_CASE("matched fills the TC blocks of a graph with hubs nearly as full as best") {
  const CsrMatrix graph = graph_with_hubs();

  // As full as when best was version 2, of which that is 0.993 times.
  const double filled = mean_nnz_tc(graph, "matched");
  CHECK(filled > 12.29);
  CHECK(filled > 0.98 * mean_nnz_tc(graph, "best"));
}

TEST_CASE("matched finds one order where rows have more candidates than a table has slots") {
  const CsrMatrix graph = graph_with_hubs();
  const auto variant = Registry<Reordering>::instance().make("matched", Params::Given{});
  const auto on = [&](int threads) {
    const ThreadCount count(threads);
    return variant->order(graph);
  };

  CHECK(on(1).rows == on(3).rows);
}

TEST_CASE("matched orders a hub that is joined to every vertex") { check_hub("matched"); }

}  // namespace
}  // namespace tessera
