// The walk of Rabbit Order's dendrogram, which is an order and the base of the affinity order.
#pragma once

#include "formats/base/matrix.hpp"
#include "reorder/graph.hpp"
#include "reorder/watch.hpp"

namespace tessera {

/// The vertices in the order of the walk. A square matrix is one graph with one order for rows and
/// columns; a rectangular one is a bipartite graph, whose walk is split into rows and columns.
/// Throws Unsupported for a rectangular matrix of more than 2^31 - 1 rows and columns together.
/// When stopped, unvisited vertices remain communities of their own.
GraphOrder rabbit_walk(const CsrMatrix& matrix, Watch& watch);

}  // namespace tessera
