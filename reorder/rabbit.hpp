// The walk of Rabbit Order's dendrogram: an order of its own, and the base of the affinity order.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// Old indices in the order of the walk. A square matrix is one graph, and both are the same; a
/// rectangle is a bipartite graph, whose walk is split into its rows and its columns.
struct RabbitWalk {
  std::vector<std::int32_t> rows;  // [matrix.rows]
  std::vector<std::int32_t> cols;  // [matrix.cols]
};

/// Throws Unsupported for a rectangle of more than 2^31 - 1 rows and columns together.
RabbitWalk rabbit_walk(const CsrMatrix& matrix);

}  // namespace tessera
