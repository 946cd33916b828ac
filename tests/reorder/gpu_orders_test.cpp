// The orders `affinity_chains`, `lsh_chains` and `label_propagation`, which a GPU finds as well:
// cases small enough for paper, awkward shapes, and quality beside the orders of their kind that
// only a CPU finds. tests/reorder/gpu_orders_device_test.cpp compares them with their device
// halves.
#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

#include "reorder/reordering.hpp"
#include "tests/reorder_support.hpp"

namespace tessera {
namespace {

const char* const kOrders[] = {"affinity_chains", "lsh_chains", "label_propagation"};

Order order_of(const CsrMatrix& matrix, const std::string& name, const Params::Given& given = {}) {
  return Registry<Reordering>::instance().make(name, given)->order(matrix);
}

std::vector<std::int32_t> shuffled(std::int32_t size, std::uint64_t seed) {
  std::vector<std::int32_t> values(size);
  for (std::int32_t i = 0; i < size; ++i) values[i] = i;
  RandomSequence(seed).shuffle(values);
  return values;
}

TEST_CASE("affinity_chains puts a shuffled band back in its sequence") {
  // Row i of the band has columns 3 i to 3 i + 8: six in common with the next one, three with the
  // one after it.
  constexpr std::int32_t kRows = 100;
  const std::vector<std::int32_t> band = shuffled(kRows, 5);
  std::vector<std::vector<std::int32_t>> rows(kRows);
  for (std::int32_t row = 0; row < kRows; ++row)
    for (std::int32_t col = 0; col < 9; ++col) rows[row].push_back(3 * band[row] + col);

  const Order order = order_of(pattern_matrix(kRows, 3 * kRows + 6, rows), "affinity_chains");

  const auto found = order.rows.old_of_new();
  for (std::int32_t i = 1; i < kRows; ++i)
    CHECK(std::abs(band[found[i]] - band[found[i - 1]]) == 1);
}

TEST_CASE("orders found on the GPU put rows that share columns in one window") {
  // Sixteen groups of eight rows; those of a group hold the same eight columns.
  constexpr std::int32_t kRows = 128;
  const std::vector<std::int32_t> place = shuffled(kRows, 9);
  std::vector<std::vector<std::int32_t>> rows(kRows);
  for (std::int32_t row = 0; row < kRows; ++row)
    for (std::int32_t col = 0; col < 8; ++col) rows[row].push_back(place[row] / 8 * 8 + col);
  const CsrMatrix matrix = pattern_matrix(kRows, kRows, rows);

  for (const char* const name : kOrders) {
    CAPTURE(name);
    const Order order = order_of(matrix, name);
    const auto found = order.rows.old_of_new();
    for (std::int32_t window = 0; window < kRows; window += 8) {
      std::set<std::int32_t> groups;
      for (std::int32_t i = window; i < window + 8; ++i) groups.insert(place[found[i]] / 8);
      CHECK(groups.size() == 1);
    }
  }
}

TEST_CASE("chains of lsh_chains have at most as many rows as they may have") {
  // All rows are alike, so that nothing but the limit ends a chain: its least row comes first, and
  // others follow.
  const std::int32_t kRows = 64;
  const std::vector<std::vector<std::int32_t>> rows(kRows, {0, 1, 2});
  const CsrMatrix matrix = pattern_matrix(kRows, 3, rows);

  CHECK(order_of(matrix, "lsh_chains", {{"cluster_rows", std::int64_t{1}}}).rows.is_identity());
  CHECK_FALSE(order_of(matrix, "lsh_chains").rows.is_identity());
}

TEST_CASE("orders found on the GPU order awkward shapes, equally on one thread and on three") {
  for (const char* const name : kOrders) {
    CAPTURE(name);
    check_awkward_shapes(name);
  }
}

TEST_CASE("orders found on the GPU are the same on one thread and on three, for a seed") {
  const CsrMatrix graph = shuffled_communities();
  for (const char* const name : kOrders) {
    CAPTURE(name);
    const auto on = [&](int threads, const Params::Given& given = {}) {
      const ThreadCount count(threads);
      return order_of(graph, name, given).rows;
    };
    CHECK(on(1) == on(3));
    if (name != std::string("affinity_chains"))
      CHECK_FALSE(on(1) == on(1, {{"seed", std::int64_t{2}}}));
  }
}

TEST_CASE("orders found on the GPU pack shuffled communities as full as those of their kind") {
  const CsrMatrix graph = shuffled_communities();
  const auto filled = [&](const char* name) { return mean_nnz_tc(graph, name); };

  CHECK(filled("affinity_chains") > 0.98 * filled("affinity"));
  CHECK(filled("lsh_chains") > filled("dtc_lsh"));
  CHECK(filled("lsh_chains") > filled("lsh64"));
  CHECK(filled("label_propagation") > 0.9 * filled("louvain"));
}

TEST_CASE("orders found on the GPU order a hub that is joined to every vertex") {
  for (const char* const name : kOrders) {
    CAPTURE(name);
    check_hub(name);
  }
}

}  // namespace
}  // namespace tessera
