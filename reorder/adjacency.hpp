// The graph of a square matrix, A + A^T without its diagonal, and the algorithms that graph orders
// share: ordering by connected components, breadth-first distances, pseudo-peripheral vertices.
//
// Everything here takes time and memory linear in the nonzeros, for any number of components.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "formats/base/raw_vector.hpp"
#include "reorder/reordering.hpp"

namespace tessera {

/// The distinct neighbours of each vertex, ascending, without the vertex itself.
struct Adjacency {
  std::vector<std::int64_t> offsets{0};  // [vertices + 1]
  RawVector<std::int32_t> neighbours;    // [offsets.back()]

  std::int32_t size() const { return static_cast<std::int32_t>(offsets.size()) - 1; }
  std::int64_t degree(std::int32_t v) const { return offsets[v + 1] - offsets[v]; }
  std::span<const std::int32_t> of(std::int32_t v) const {
    return {neighbours.data() + offsets[v], static_cast<std::size_t>(degree(v))};
  }
};

/// The pattern of A + A^T. Throws Unsupported unless A is square; `algorithm` opens its message.
Adjacency symmetric_pattern(const CsrMatrix& matrix, std::string_view algorithm);

/// Orders each connected component separately, the components by their smallest vertex.
/// order_component gets a component as a graph of its own, numbered breadth first from that vertex
/// (neighbours in the order of the whole graph), and returns its vertices in order. The result is
/// [vertices].
std::vector<std::int32_t> order_by_component(
    const Adjacency& graph,
    const std::function<std::vector<std::int32_t>(const Adjacency& component)>& order_component);

/// A breadth-first search of a connected graph.
struct BreadthFirst {
  std::vector<std::int32_t> visited;   // [vertices] in the order of the search
  std::vector<std::int32_t> distance;  // [vertices] edges to the start

  std::int32_t height() const { return distance[visited.back()]; }
};

BreadthFirst breadth_first(const Adjacency& graph, std::int32_t start);

/// The two ends of a long shortest path in a connected graph (George and Liu 1979: search again
/// from a vertex of least degree in the last level while the distance grows). Departure: at most
/// eight searches, which bounds the time.
struct PseudoDiameter {
  std::int32_t start = 0;
  BreadthFirst from_end;  // the search from the other end
};

PseudoDiameter pseudo_diameter(const Adjacency& graph);

/// The parameter "apply" of the graph orders, and the Order that its value selects.
ParamSpec apply_to_both_sides();
Order on_sides(std::vector<std::int32_t> order, const std::string& apply);

}  // namespace tessera
