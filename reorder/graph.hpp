// The undirected graph of a matrix for the community orders, read from A and A^T in place: A + A^T
// of a square matrix, with an edge of both directions counted twice and without the diagonal; the
// bipartite graph of its rows and columns for a rectangular matrix.
//
// Beside the matrix it takes 4 bytes per nonzero where A is not its own transpose, and 8 per
// column: less than adjacency.hpp, which has the graph as lists of distinct neighbours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/matrix.hpp"
#include "reorder/adjacency.hpp"
#include "reorder/reordering.hpp"

namespace tessera {

/// The rows of each column, ascending: the pattern of A^T. Parallel.
Adjacency rows_of_columns(const CsrMatrix& matrix);

/// An order of a graph's vertices as orders of the rows and columns of the matrix: one order for
/// both sides of a square matrix, the two parts of the order for a rectangular one.
struct GraphOrder {
  std::vector<std::int32_t> rows;  // [matrix.rows] old indices
  std::vector<std::int32_t> cols;  // [matrix.cols]
};

/// The Order that the value of the parameter "apply" (adjacency.hpp) selects.
Order on_sides(GraphOrder order, const std::string& apply);

class Graph {
 public:
  /// Keeps a reference to the matrix. Throws Unsupported for a rectangular matrix of more than
  /// 2^31 - 1 rows and columns together; `algorithm` opens its message.
  Graph(const CsrMatrix& matrix, std::string_view algorithm);

  std::int32_t vertices() const { return bipartite_ ? a_.rows + a_.cols : a_.rows; }

  /// The number of entries that for_each_neighbour reads, including those of the diagonal.
  std::int64_t degree_bound(std::int32_t vertex) const {
    std::int64_t bound = vertex < a_.rows ? a_.row_length(vertex) : 0;
    const std::int32_t col = column_of(vertex);
    if (col >= 0 && col < columns_.size()) bound += columns_.degree(col);
    return bound;
  }

  /// Calls visit(neighbour) once for every nonzero of `vertex` in A and in A^T.
  template <class Visit>
  void for_each_neighbour(std::int32_t vertex, Visit visit) const {
    if (vertex < a_.rows) {
      const std::int32_t shift = bipartite_ ? a_.rows : 0;
      for (const std::int32_t col : a_.row_cols(vertex))
        if (col + shift != vertex) visit(col + shift);
    }
    const std::int32_t col = column_of(vertex);
    if (col < 0 || col >= columns_.size()) return;
    for (const std::int32_t row : columns_.of(col))
      if (row != vertex) visit(row);
  }

  /// Splits an order of all vertices into rows and columns.
  GraphOrder split(const std::vector<std::int32_t>& order) const;

 private:
  std::int32_t column_of(std::int32_t vertex) const {
    return bipartite_ ? vertex - a_.rows : vertex;
  }

  const CsrMatrix& a_;
  Adjacency columns_;  // empty where it would repeat A
  bool bipartite_;
};

}  // namespace tessera
