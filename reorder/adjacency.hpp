// The graph of a square matrix, A + A^T without its diagonal, and what the orders of graphs share:
// connected components one at a time, breadth-first distances, a vertex at the rim.
//
// Everything here takes time and memory linear in the nonzeros, however many components there are.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "reorder/reordering.hpp"

namespace tessera {

/// Neighbours of each vertex, ascending, each once, without the vertex itself.
struct Adjacency {
  std::vector<std::int64_t> offsets{0};  // [vertices + 1]
  std::vector<std::int32_t> neighbours;  // [offsets.back()]

  std::int32_t size() const { return static_cast<std::int32_t>(offsets.size()) - 1; }
  std::int64_t degree(std::int32_t v) const { return offsets[v + 1] - offsets[v]; }
  std::span<const std::int32_t> of(std::int32_t v) const {
    return {neighbours.data() + offsets[v], static_cast<std::size_t>(degree(v))};
  }
};

/// The pattern of A + A^T. Throws Unsupported, opening with the algorithm's name, unless A is
/// square.
Adjacency symmetric_pattern(const CsrMatrix& matrix, std::string_view algorithm);

/// Orders each connected component by itself, in the order of their smallest vertex. The function
/// gets a component as a graph of its own, numbered breadth first from that vertex (neighbours in
/// the order of the whole graph), and returns its vertices in order.
std::vector<std::int32_t> order_by_component(
    const Adjacency& graph,
    const std::function<std::vector<std::int32_t>(const Adjacency& component)>& order_component);

/// A breadth-first search of a connected graph.
struct BreadthFirst {
  std::vector<std::int32_t> visited;   // [vertices], from the start to the farthest
  std::vector<std::int32_t> distance;  // [vertices]

  std::int32_t height() const { return distance[visited.back()]; }
};

BreadthFirst breadth_first(const Adjacency& graph, std::int32_t start);

/// The two ends of a long shortest path in a connected graph (George and Liu 1979: from a vertex of
/// least degree in the last level, as long as that gets farther). Departure: at most eight
/// searches, which bounds the time.
struct PseudoDiameter {
  std::int32_t start = 0;
  BreadthFirst from_end;  // distances to the other end, where the search began
};

PseudoDiameter pseudo_diameter(const Adjacency& graph);

/// The parameter "apply" of the orders of graphs, and the Order it asks for.
ParamSpec apply_to_both_sides();
Order on_sides(std::vector<std::int32_t> order, const std::string& apply);

}  // namespace tessera
