#include "reorder/graph.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "formats/base/check.hpp"
#include "reorder/inverted.hpp"

namespace tessera {
Adjacency rows_of_columns(const CsrMatrix& matrix) {
  Inverted columns =
      invert(matrix.rows, matrix.cols, [&](std::int32_t row) { return matrix.row_cols(row); });
  return {std::move(columns.offsets), std::move(columns.sets)};
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
