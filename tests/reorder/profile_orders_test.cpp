// King's and Sloan's orders: worked examples, awkward graphs, hubs and many components.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "formats/base/registry.hpp"
#include "formats/generators/shuffle.hpp"
#include "formats/io/source.hpp"
#include "formats/statistics/statistics.hpp"
#include "reorder/reordering.hpp"
#include "tests/reorder_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

Order order_by(const std::string& name, const CsrMatrix& a, const Params::Given& given = {}) {
  return Registry<Reordering>::instance().make(name, given)->order(a);
}

const std::string kOrders[] = {"king", "sloan"};

TEST_CASE("king takes the vertex with the fewest new neighbours, not the first one") {
  // From 9, the end farthest from 0: 8 leads to 6 and 7, 6 to 4 and 5, but 7 to 5 alone. A
  // breadth-first search takes 6 first.
  const CsrMatrix net = from_edges(
      10, {{9, 8}, {8, 6}, {8, 7}, {6, 4}, {6, 5}, {7, 5}, {4, 3}, {5, 3}, {3, 2}, {2, 1}, {1, 0}});

  const Order order = order_by("king", net);

  CHECK(order.rows == Permutation({9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
}

TEST_CASE("king and sloan bring a shuffled grid back to a small profile") {
  const CsrMatrix grid = load_matrix("poisson2d(nx=60, ny=20)", false).matrix;
  const CsrMatrix mixed = shuffled(grid, ShuffledSides::kSymmetric, 4);
  const std::int64_t by_file = statistics(grid).profile, by_chance = statistics(mixed).profile;
  REQUIRE(by_chance > 5 * by_file);

  for (const std::string& name : kOrders) {
    CAPTURE(name);
    const CsrMatrix ordered = apply(mixed, order_by(name, mixed));
    CHECK(statistics(ordered).profile < 23 * 1200);  // 20 is the short side
    CHECK(statistics(ordered).windows[0].mean_nnz_tc >
          1.1 * statistics(mixed).windows[0].mean_nnz_tc);
  }
}

TEST_CASE("sloan weighs the distance to the far end against the growth of the front") {
  const CsrMatrix mixed = shuffled(load_matrix("geometric(n=2000, degree=8)", false).matrix,
                                   ShuffledSides::kSymmetric, 4);
  const auto profile = [&](std::int64_t distance, std::int64_t growth) {
    const Params::Given given{{"distance_weight", distance}, {"growth_weight", growth}};
    return static_cast<double>(statistics(apply(mixed, order_by("sloan", mixed, given))).profile);
  };

  // Only the ratio of the two counts; either alone leaves a larger profile than both together.
  CHECK(profile(1, 2) == profile(50, 100));
  CHECK(1.2 * profile(1, 2) < profile(0, 2));
  CHECK(1.2 * profile(1, 2) < profile(1, 0));
}

TEST_CASE("king and sloan see the edges of both directions and refuse a rectangle") {
  // A directed path 0 -> 2 -> 1 -> 3, upper and lower entries mixed.
  const CsrMatrix path{4, 4, std::vector<std::int64_t>{0, 1, 2, 3, 3},
                       std::vector<std::int32_t>{2, 3, 1}, std::vector<float>{0.5f, -0.25f, 2.0f}};
  for (const std::string& name : kOrders) {
    CAPTURE(name);
    const Order order = order_by(name, path);
    CHECK(statistics(apply(path, order)).bandwidth == 1);
    CHECK(order.cols == order.rows);
    CHECK(!order_by(name, path, {{"apply", std::string("rows")}}).cols);
    CHECK_THROWS_AS(order_by(name, random_sparse(4, 5, 0.5, 1)), Unsupported);
    CHECK_THROWS_AS(order_by(name, random_sparse(1, 9, 0.5, 1)), Unsupported);
  }
}

TEST_CASE("king and sloan take linear time with many components and with a hub") {
  std::vector<std::pair<int, int>> triples, star;
  const int n = 300000;
  for (int i = 0; i + 2 < n; i += 3) triples.insert(triples.end(), {{i, i + 1}, {i + 1, i + 2}});
  for (int i = 1; i < n; ++i) star.emplace_back(0, i);
  for (int i = 1; i + 1 < n; i += 2) star.emplace_back(i, i + 1);

  for (const std::string& name : kOrders) {
    CAPTURE(name);
    const CsrMatrix a = from_edges(n, triples), b = from_edges(n, star);
    const auto start = std::chrono::steady_clock::now();
    const Order of_triples = order_by(name, a), of_star = order_by(name, b);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    CHECK(statistics(apply(a, of_triples)).bandwidth == 1);
    CHECK(of_star.rows.size() == n);
    CHECK(seconds.count() < 20);  // quadratic would be hours
  }
}

}  // namespace
}  // namespace tessera
