// Rabbit Order: a graph small enough for paper, awkward shapes, and communities found again.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "reorder/community_weights.hpp"
#include "reorder/reordering.hpp"
#include "tests/reorder_support.hpp"

namespace tessera {
namespace {

TEST_CASE("rabbit walks the dendrogram of two triangles joined by an edge") {
  // 0-2-4 and 1-3-5 are triangles, 4-5 joins them; 2m = 14. By degree: 0 1 2 3 (2 each), 4 5 (3).
  // 0: to 2 gains 1 - 2*2/14, to 4 only 1 - 3*2/14, so 0 joins 2; likewise 1 joins 3.
  // 2 with 0 (k = 4): two edges to 4, 2 - 3*4/14 > 0, so 2 joins 4; likewise 3 joins 5.
  // 4 with all of its triangle (k = 7): one edge to 5 (k = 7), 1 - 7*7/14 < 0: a root; so is 5.
  const CsrMatrix triangles =
      pattern_matrix(6, 6, {{2, 4}, {3, 5}, {0, 4}, {1, 5}, {0, 2, 5}, {1, 3, 4}});

  const Order order = Registry<Reordering>::instance().make("rabbit")->order(triangles);

  CHECK(order.rows == Permutation({4, 2, 0, 5, 3, 1}));
  CHECK(order.cols == order.rows);
}

TEST_CASE("rabbit reads a directed edge from both ends and leaves the diagonal out") {
  // The upper triangles of the graph above, with a full diagonal.
  const CsrMatrix upper = pattern_matrix(6, 6, {{0, 2, 4}, {1, 3, 5}, {2, 4}, {3, 5}, {4, 5}, {5}});

  const Order order = Registry<Reordering>::instance()
                          .make("rabbit", {{"apply", std::string("rows")}})
                          ->order(upper);

  CHECK(order.rows == Permutation({4, 2, 0, 5, 3, 1}));
  CHECK(!order.cols);
}

TEST_CASE("rabbit puts rows of a rectangle together that share columns") {
  const CsrMatrix two_groups =
      pattern_matrix(4, 7, {{0, 2, 5}, {1, 3, 4}, {0, 2, 5}, {1, 3, 4, 6}});

  const Order order = Registry<Reordering>::instance().make("rabbit")->order(two_groups);

  const auto rows = order.rows.old_of_new();
  CHECK(rows[0] % 2 == rows[1] % 2);
  CHECK(rows[2] % 2 == rows[3] % 2);
  REQUIRE(order.cols);
  CHECK(order.cols->size() == 7);
}

TEST_CASE("rabbit orders awkward shapes, equally on one thread and on three") {
  check_awkward_shapes("rabbit");
}

TEST_CASE("rabbit finds shuffled communities again: 1.2 times the nonzeros of a tile") {
  const CsrMatrix shuffled = shuffled_communities();

  CHECK(mean_nnz_tc(shuffled, "rabbit") > 1.2 * mean_nnz_tc(shuffled, "none"));
}

TEST_CASE("rabbit orders a hub that is joined to every vertex") { check_hub("rabbit"); }

TEST_CASE("rabbit gives one order on any number of threads, batches of many edges included") {
  const CsrMatrix large = random_sparse(40'000, 40'000, 5e-4, 12);
  const auto on = [&](int threads) {
    const ThreadCount count(threads);
    return Registry<Reordering>::instance().make("rabbit")->order(large).rows;
  };

  const Permutation one = on(1);

  CHECK(one == on(2));
  CHECK(one == on(5));
  CHECK(!one.is_identity());
}

TEST_CASE("a stopped rabbit still orders all rows") {
  const CsrMatrix shuffled = shuffled_communities();
  const auto variant = Registry<Reordering>::instance().make("rabbit");
  int asked = 0;
  Watch watch([&] { return ++asked > 20; });

  const Order order = variant->order(shuffled, watch);

  CHECK(watch.stopped());
  CHECK(order.rows.size() == shuffled.rows);
  CHECK(order.rows != variant->order(shuffled).rows);
}

TEST_CASE("waiting edges keep their order, heavy ones their weights, at every width") {
  CHECK(WaitingEdges::width_of(127) == 1);
  CHECK(WaitingEdges::width_of(128) == 2);
  CHECK(WaitingEdges::width_of(1 << 22) == 3);
  CHECK(WaitingEdges::width_of((1 << 23) - 1) == 3);
  CHECK(WaitingEdges::width_of(1 << 23) == 4);
  CHECK(WaitingEdges::width_of(std::numeric_limits<std::int32_t>::max()) == 4);
  for (const std::int32_t communities : {100, 30'000, 1 << 22, 2'000'000'000}) {
    CAPTURE(communities);
    const int width = WaitingEdges::width_of(communities);
    RandomSequence random(7);
    std::vector<WeightedEdge> edges = {
        {communities - 1, 0xffffffffu}, {0, 1}, {communities - 1, 1}};
    for (int i = 0; i < 50; ++i)
      edges.push_back({static_cast<std::int32_t>(random.below(communities)),
                       i % 3 == 0 ? 1 : static_cast<std::uint32_t>(random.below(1 << 20))});
    WaitingEdges waiting;
    waiting.assign(std::vector<WeightedEdge>{{5, 7}}, width);
    waiting.assign(edges, width);
    CHECK(waiting.bound(width) >= std::ssize(edges));
    std::size_t next = 0;
    waiting.for_each(width, [&](const WeightedEdge& edge) {
      REQUIRE(next < edges.size());
      CHECK(edge.to == edges[next].to);
      CHECK(edge.weight == edges[next++].weight);
    });
    CHECK(next == edges.size());
  }
}

}  // namespace
}  // namespace tessera
