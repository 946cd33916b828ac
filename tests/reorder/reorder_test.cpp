// Reorderings: what every one of them owes, and a worked example for each.
#include <doctest/doctest.h>

#include <algorithm>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"
#include "tests/reorder_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

std::int32_t bandwidth(const CsrMatrix& matrix) {
  std::int32_t widest = 0;
  for (std::int32_t i = 0; i < matrix.rows; ++i)
    for (const std::int32_t j : matrix.row_cols(i)) widest = std::max(widest, std::abs(i - j));
  return widest;
}

TEST_CASE(
    "every reordering gives a permutation that only moves A, whatever the number of threads") {
  REQUIRE(!Registry<Reordering>::instance().entries().empty());
  const CsrMatrix matrices[] = {random_sparse(61, 61, 0.08, 3), random_sparse(1, 1, 1, 4),
                                random_sparse(40, 17, 0.2, 5), random_sparse(64, 64, 0.0, 6),
                                CsrMatrix{}};
  for (const auto& [name, entry] : Registry<Reordering>::instance().entries()) {
    for (const CsrMatrix& a : matrices) {
      CAPTURE(name);
      CAPTURE(a.rows);
      const auto reordering = Registry<Reordering>::instance().make(name);
      Order order;
      try {
        order = reordering->order(a);
      } catch (const Unsupported& reason) {
        CHECK(a.rows != a.cols);
        continue;
      }

      const CsrMatrix moved = apply(a, order);

      validate(moved);
      CsrMatrix back = permute_rows(moved, order.rows.inverse());
      if (order.cols) back = permute_cols(back, order.cols->inverse());
      CHECK(back == a);
      const ThreadCount one(1);
      CHECK(reordering->order(a).rows == order.rows);
    }
  }
}

TEST_CASE("degree sorts rows by length and keeps ties in place") {
  const CsrMatrix star = from_edges(5, {{2, 0}, {2, 1}, {2, 3}, {4, 0}});  // lengths 2 1 3 1 1

  const auto descending = Registry<Reordering>::instance().make("degree")->order(star);
  const auto ascending = Registry<Reordering>::instance()
                             .make("degree", {{"sort", std::string("ascending")}})
                             ->order(star);

  CHECK(descending.rows == Permutation({2, 0, 1, 3, 4}));
  CHECK(ascending.rows == Permutation({1, 3, 4, 0, 2}));
}

TEST_CASE("rcm brings a shuffled path back to bandwidth one, component by component") {
  std::vector<std::int32_t> label(3001);
  for (int i = 0; i < 3001; ++i) label[i] = i;
  RandomSequence(9).shuffle(label);
  std::vector<std::pair<int, int>> edges;
  for (int i = 0; i + 1 < 3000; ++i)
    if (i % 30 != 29) edges.emplace_back(label[i], label[i + 1]);  // 100 paths and an isolated row
  const CsrMatrix paths = from_edges(3001, edges);
  REQUIRE(bandwidth(paths) > 100);

  const auto order = Registry<Reordering>::instance().make("rcm")->order(paths);

  CHECK(bandwidth(apply(paths, order)) == 1);
  CHECK(order.cols == order.rows);
  const auto rows_only =
      Registry<Reordering>::instance().make("rcm", {{"apply", std::string("rows")}})->order(paths);
  CHECK(rows_only.rows == order.rows);
  CHECK(!rows_only.cols);
}

TEST_CASE(
    "rcm uses the edges of both directions and refuses a rectangular matrix with the reason") {
  // A directed path 0 -> 2 -> 1 -> 3, upper and lower entries mixed.
  const CsrMatrix path{4, 4, std::vector<std::int64_t>{0, 1, 2, 3, 3},
                       std::vector<std::int32_t>{2, 3, 1}, std::vector<float>{0.5f, -0.25f, 2.0f}};
  const auto rcm = Registry<Reordering>::instance().make("rcm");

  CHECK(bandwidth(apply(path, rcm->order(path))) == 1);
  CHECK_THROWS_AS(rcm->order(random_sparse(4, 5, 0.5, 1)), Unsupported);
}

TEST_CASE("rcm takes time linear in the matrix at any number of components") {
  std::vector<std::pair<int, int>> edges;
  const int n = 300000;
  for (int i = 0; i + 2 < n; i += 3) edges.insert(edges.end(), {{i, i + 1}, {i + 1, i + 2}});
  const CsrMatrix triples = from_edges(n, edges);  // 100,000 components

  const auto order = Registry<Reordering>::instance().make("rcm")->order(triples);

  CHECK(bandwidth(apply(triples, order)) == 1);
}

}  // namespace
}  // namespace tessera
