// The walk of Rabbit Order's dendrogram: an order of its own, and the base of the affinity order.
#pragma once

#include "formats/base/matrix.hpp"
#include "reorder/graph.hpp"
#include "reorder/watch.hpp"

namespace tessera {

/// The vertices in the order of the walk. A square matrix is one graph, and both sides are the
/// same; a rectangle is a bipartite graph, whose walk is split into its rows and its columns.
/// Throws Unsupported for a rectangle of more than 2^31 - 1 rows and columns together. A walk cut
/// short leaves the vertices it has not visited as communities of their own.
GraphOrder rabbit_walk(const CsrMatrix& matrix, Watch& watch);

}  // namespace tessera
