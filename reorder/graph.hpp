// The undirected graph of a matrix as the orders by communities see it, read from A and A^T in
// place: A + A^T of a square matrix, with an edge of both directions counted twice and without the
// diagonal; the bipartite graph of its rows and columns for a rectangle.
//
// Beside the matrix it takes 4 bytes a nonzero where A is not its own transpose, 8 a column, and
// nothing else: adjacency.hpp has the graph as lists of distinct neighbours, which costs more.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/matrix.hpp"
#include "reorder/adjacency.hpp"
#include "reorder/reordering.hpp"

namespace tessera {

/// The rows of each column, ascending: the pattern of A^T. On all threads.
Adjacency rows_of_columns(const CsrMatrix& matrix);

/// An order of a graph's vertices as orders of the matrix' rows and columns: the same one for a
/// square matrix, two parts of one for a rectangle.
struct GraphOrder {
  std::vector<std::int32_t> rows;  // [matrix.rows] old indices
  std::vector<std::int32_t> cols;  // [matrix.cols]
};

/// What the parameter "apply" (adjacency.hpp) asks for.
Order on_sides(GraphOrder order, const std::string& apply);

class Graph {
 public:
  /// Keeps a reference to the matrix. Throws Unsupported, opening with the algorithm's name, for a
  /// rectangle of more than 2^31 - 1 rows and columns together.
  Graph(const CsrMatrix& matrix, std::string_view algorithm);

  std::int32_t vertices() const { return bipartite_ ? a_.rows + a_.cols : a_.rows; }

  /// Entries that for_each_neighbour goes through, those of the diagonal included.
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

  /// An order of all vertices, by rows and columns.
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
