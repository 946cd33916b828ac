// Louvain and Leiden: graphs small enough for paper, awkward shapes, communities found again.
#include <doctest/doctest.h>

#include <set>

#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"
#include "tests/reorder_support.hpp"

namespace tessera {
namespace {

const Params::Given kLeiden{{"refine", std::string("leiden")}};

Order louvain(const CsrMatrix& matrix, const Params::Given& given = {}) {
  return Registry<Reordering>::instance().make("louvain", given)->order(matrix);
}

/// The vertices at places [begin, end) of the order.
std::set<std::int32_t> placed(const Order& order, int begin, int end) {
  const auto rows = order.rows.old_of_new();
  return {rows.begin() + begin, rows.begin() + end};
}

TEST_CASE("louvain puts two triangles joined by an edge one after the other") {
  // 0-2-4 and 1-3-5 are triangles, 4-5 joins them; 2m = 14. A triangle has k = 7: the two together
  // would gain 1 - 7*7/14 < 0, any part of one gains with the rest of it (2 - 2*5/14, say).
  const CsrMatrix triangles =
      from_edges(6, {{0, 2}, {0, 4}, {2, 4}, {1, 3}, {1, 5}, {3, 5}, {4, 5}});

  for (const Params::Given& given : {Params::Given{}, kLeiden}) {
    const Order order = louvain(triangles, given);

    CHECK(order.rows == Permutation({0, 2, 4, 1, 3, 5}));
    CHECK(order.cols == order.rows);
  }
}

TEST_CASE("louvain reads a directed edge from both ends and leaves the diagonal out") {
  // The upper triangles of the graph above, with a full diagonal.
  const CsrMatrix upper = pattern_matrix(6, 6, {{0, 2, 4}, {1, 3, 5}, {2, 4}, {3, 5}, {4, 5}, {5}});

  const Order order = louvain(upper, {{"apply", std::string("rows")}});

  CHECK(order.rows == Permutation({0, 2, 4, 1, 3, 5}));
  CHECK(!order.cols);
}

/// 24 cliques of 5, each joined to the next of the ring by an edge; vertex v is in clique v % 24.
CsrMatrix ring_of_cliques() {
  std::vector<std::pair<int, int>> edges;
  for (int clique = 0; clique < 24; ++clique) {
    for (int a = 0; a < 5; ++a)
      for (int b = 0; b < a; ++b) edges.emplace_back(clique + 24 * a, clique + 24 * b);
    edges.emplace_back(clique, (clique + 1) % 24 + 24);
  }
  return from_edges(120, edges);
}

TEST_CASE("louvain keeps the cliques of a ring together within larger communities") {
  // 264 edges, k = 22 of a clique: two neighbours gain 1 - 22*22/528 > 0 by becoming one community,
  // so a walk that did not descend to the level below would mix their vertices by number.
  for (const Params::Given& given : {Params::Given{}, kLeiden}) {
    const Order order = louvain(ring_of_cliques(), given);

    for (int clique = 0; clique < 24; ++clique) {
      std::set<std::int32_t> owners;
      for (const std::int32_t v : placed(order, 5 * clique, 5 * clique + 5)) owners.insert(v % 24);
      CHECK(owners.size() == 1);
    }
  }
}

TEST_CASE("louvain puts joined cliques next to each other unless the resolution keeps them apart") {
  const auto joined_pairs = [](double resolution) {
    const Order order = louvain(ring_of_cliques(), {{"resolution", resolution}});
    const auto rows = order.rows.old_of_new();
    int pairs = 0;
    for (int place = 0; place < 24; ++place) {
      const int apart = std::abs(rows[5 * place] % 24 - rows[(5 * place + 5) % 120] % 24);
      pairs += apart == 1 || apart == 23;
    }
    return pairs;
  };

  CHECK(joined_pairs(1.0) >= 12);
  // Nothing gains at all: 1 - 1e6 * 4*4/528 < 0 for any two vertices, which stay as they are.
  CHECK(louvain(ring_of_cliques(), {{"resolution", 1e6}}).rows.is_identity());
}

TEST_CASE("louvain puts rows of a rectangle together that share columns") {
  const CsrMatrix two_groups =
      pattern_matrix(4, 7, {{0, 2, 5}, {1, 3, 4}, {0, 2, 5}, {1, 3, 4, 6}});

  const Order order = louvain(two_groups);

  CHECK(order.rows == Permutation({0, 2, 1, 3}));
  REQUIRE(order.cols);
  const auto cols = order.cols->old_of_new();
  CHECK(std::set(cols.begin(), cols.begin() + 3) == std::set{0, 2, 5});
}

TEST_CASE("louvain orders awkward shapes, equally on one thread and on three") {
  check_awkward_shapes("louvain");
  check_awkward_shapes("louvain", kLeiden);
}

TEST_CASE("louvain finds shuffled communities again: 1.2 times the nonzeros of a tile") {
  const CsrMatrix shuffled = shuffled_communities();
  const double before = mean_nnz_tc(shuffled, "none");

  CHECK(mean_nnz_tc(shuffled, "louvain") > 1.2 * before);
  CHECK(mean_nnz_tc(shuffled, "louvain", kLeiden) > 1.2 * before);
}

TEST_CASE("louvain orders a hub that is joined to every vertex") {
  check_hub("louvain");
  check_hub("louvain", kLeiden);
}

TEST_CASE("a stopped louvain still orders all rows") {
  const CsrMatrix shuffled = shuffled_communities();
  Watch watch([] { return true; });

  const Order order = Registry<Reordering>::instance().make("louvain")->order(shuffled, watch);

  CHECK(watch.stopped());
  CHECK(order.rows.size() == shuffled.rows);
  CHECK(order.rows != louvain(shuffled).rows);
}

}  // namespace
}  // namespace tessera
