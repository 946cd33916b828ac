#include "reorder/graph.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

/// Ends of `pieces` runs of rows with about as many nonzeros each.
std::vector<std::int32_t> split_rows(const CsrMatrix& matrix, std::int64_t pieces) {
  std::vector<std::int32_t> ends{0};
  for (std::int64_t p = 1; p <= pieces; ++p) {
    const auto end = std::ranges::lower_bound(matrix.row_offsets, matrix.nnz() * p / pieces);
    ends.push_back(static_cast<std::int32_t>(end - matrix.row_offsets.begin()));
  }
  ends.back() = matrix.rows;
  return ends;
}

}  // namespace

Adjacency rows_of_columns(const CsrMatrix& matrix) {
  // Each thread counts and fills for a run of rows; the counts of all take at most 8 B a nonzero.
  const auto cols = static_cast<std::size_t>(matrix.cols);
  const std::int64_t pieces = std::clamp<std::int64_t>(
      2 * matrix.nnz() / std::max<std::int64_t>(1, matrix.cols), 1, num_threads());
  const std::vector<std::int32_t> ends = split_rows(matrix, pieces);
  const auto for_each_nonzero = [&](std::int64_t piece, auto visit) {
    for (std::int32_t row = ends[piece]; row < ends[piece + 1]; ++row)
      for (const std::int32_t col : matrix.row_cols(row)) visit(row, col);
  };
  std::vector<std::vector<std::int32_t>> place(pieces);  // [pieces][cols] counts, then next places
  parallel_for(pieces, 1, [&](std::int64_t piece, std::int64_t) {
    place[piece].assign(cols, 0);
    for_each_nonzero(piece, [&](std::int32_t, std::int32_t col) { ++place[piece][col]; });
  });
  Adjacency columns;
  columns.offsets.resize(cols + 1);
  for (std::size_t col = 0; col < cols; ++col) {
    std::int32_t length = 0;
    for (auto& counts : place) length += std::exchange(counts[col], length);
    columns.offsets[col + 1] = columns.offsets[col] + length;
  }
  columns.neighbours.resize(matrix.nnz());
  parallel_for(pieces, 1, [&](std::int64_t piece, std::int64_t) {
    for_each_nonzero(piece, [&](std::int32_t row, std::int32_t col) {
      columns.neighbours[columns.offsets[col] + place[piece][col]++] = row;
    });
  });
  return columns;
}

Order on_sides(GraphOrder order, const std::string& apply) {
  Permutation rows(std::move(order.rows));
  if (apply != "symmetric") return {std::move(rows), std::nullopt};
  return {std::move(rows), Permutation(std::move(order.cols))};
}

Graph::Graph(const CsrMatrix& matrix, std::string_view algorithm)
    : a_(matrix), bipartite_(matrix.rows != matrix.cols) {
  require<Unsupported>(
      !bipartite_ ||
          std::int64_t{matrix.rows} + matrix.cols <= std::numeric_limits<std::int32_t>::max(),
      "{} numbers the rows and columns of a rectangle together: {} + {} are too many", algorithm,
      matrix.rows, matrix.cols);
  columns_ = rows_of_columns(matrix);
  const bool symmetric = !bipartite_ && std::ranges::equal(a_.row_offsets, columns_.offsets) &&
                         std::ranges::equal(a_.col_indices, columns_.neighbours);
  if (symmetric) columns_ = Adjacency{};
}

GraphOrder Graph::split(const std::vector<std::int32_t>& order) const {
  if (!bipartite_) return {order, order};
  GraphOrder sides;
  for (const std::int32_t vertex : order)
    vertex < a_.rows ? sides.rows.push_back(vertex) : sides.cols.push_back(vertex - a_.rows);
  return sides;
}

}  // namespace tessera
