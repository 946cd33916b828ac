// Shared by the tests of single reorderings: explicit patterns, awkward shapes, communities, a hub.
// Permutation itself checks permutations: it throws for a missing or repeated index.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/generators/generator.hpp"
#include "formats/statistics/statistics.hpp"
#include "reorder/reordering.hpp"
#include "tests/support.hpp"

namespace tessera {

/// The matrix [rows x cols] with these ascending columns in its rows and seeded values.
inline CsrMatrix pattern_matrix(std::int32_t rows, std::int32_t cols,
                                const std::vector<std::vector<std::int32_t>>& row_cols) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  for (const auto& row : row_cols) {
    indices.insert(indices.end(), row.begin(), row.end());
    offsets.push_back(static_cast<std::int64_t>(indices.size()));
  }
  for (std::size_t k = 0; k < indices.size(); ++k) values.push_back(random_signed(17, k));
  CsrMatrix matrix{rows, cols, std::move(offsets), std::move(indices), std::move(values)};
  validate(matrix);
  return matrix;
}

/// The symmetric matrix of these edges with seeded values.
inline CsrMatrix from_edges(std::int32_t n, const std::vector<std::pair<int, int>>& edges) {
  std::vector<std::vector<std::int32_t>> rows(static_cast<std::size_t>(n));
  for (const auto& [a, b] : edges) {
    rows[a].push_back(b);
    rows[b].push_back(a);
  }
  for (auto& row : rows) std::ranges::sort(row);
  return pattern_matrix(n, n, rows);
}

/// 4096 vertices in 256 communities of 16, most edges within, in random order.
inline CsrMatrix shuffled_communities() {
  const CsrMatrix communities = Registry<Generator>::instance()
                                    .make("sbm", {{"n", std::int64_t{4096}},
                                                  {"blocks", std::int64_t{256}},
                                                  {"degree_in", 9.0},
                                                  {"degree_out", 2.0}})
                                    ->generate();
  std::vector<std::int32_t> label(communities.rows);
  for (std::int32_t i = 0; i < communities.rows; ++i) label[i] = i;
  RandomSequence(23).shuffle(label);
  const Permutation shuffle(std::move(label));
  return permute_cols(permute_rows(communities, shuffle), shuffle);
}

/// MeanNNZTC of row windows of `window_rows` rows (8 or 16) after the reordering.
inline double mean_nnz_tc(const CsrMatrix& matrix, const std::string& reordering,
                          const Params::Given& given = {}, int window_rows = 8) {
  const Order order = Registry<Reordering>::instance().make(reordering, given)->order(matrix);
  const auto windows = statistics(apply(matrix, order)).windows;
  return std::ranges::find(windows, window_rows, &WindowCount::height)->mean_nnz_tc;
}

/// Checks that empty, one-row, one-column, disconnected and rectangular matrices get a permutation,
/// the same on one thread and on three.
inline void check_awkward_shapes(const std::string& reordering, const Params::Given& given = {}) {
  const CsrMatrix shapes[] = {CsrMatrix{},
                              random_sparse(64, 64, 0, 1),
                              random_sparse(1, 90, 0.3, 2),
                              random_sparse(90, 1, 0.3, 3),
                              random_sparse(1, 1, 1, 4),
                              random_sparse(200, 200, 0.004, 5),  // in many components
                              random_sparse(300, 40, 0.05, 6),
                              random_sparse(40, 300, 0.05, 7),
                              random_sparse(97, 97, 0.2, 8)};
  const auto variant = Registry<Reordering>::instance().make(reordering, given);
  for (const CsrMatrix& a : shapes) {
    CAPTURE(a.rows);
    CAPTURE(a.cols);

    const auto on = [&](int threads) {
      const ThreadCount count(threads);
      return variant->order(a);
    };
    const Order one = on(1), three = on(3);

    CHECK(one.rows.size() == a.rows);
    CHECK(one.rows == three.rows);
    CHECK(one.cols == three.cols);
    if (one.cols) CHECK(one.cols->size() == a.cols);
  }
}

/// Checks that a matrix with a row and a column of 200,000 nonzeros is ordered, which takes a
/// method that is quadratic in the largest degree too long.
inline void check_hub(const std::string& reordering, const Params::Given& given = {}) {
  const std::int32_t n = 200'000;
  std::vector<std::vector<std::int32_t>> rows(n);
  for (std::int32_t i = 1; i < n; ++i) {
    rows[0].push_back(i);
    rows[i] = {0, i ^ 1};
    if (rows[i][1] == 0 || rows[i][1] >= n) rows[i].pop_back();
  }
  const CsrMatrix hub = pattern_matrix(n, n, rows);

  const Order order = Registry<Reordering>::instance().make(reordering, given)->order(hub);

  CHECK(order.rows.size() == n);
}

}  // namespace tessera
