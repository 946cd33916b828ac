#include "reorder/adjacency.hpp"

#include <algorithm>
#include <iterator>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

/// The vertices reachable from `start`, breadth first; marks them in `seen`.
void collect_component(const Adjacency& graph, std::int32_t start, std::vector<bool>& seen,
                       std::vector<std::int32_t>& component) {
  component.assign(1, start);
  seen[start] = true;
  for (std::size_t i = 0; i < component.size(); ++i) {
    for (const std::int32_t next : graph.of(component[i])) {
      if (!seen[next]) component.push_back(next);
      seen[next] = true;
    }
  }
}

}  // namespace

Adjacency symmetric_pattern(const CsrMatrix& matrix, std::string_view algorithm) {
  require<Unsupported>(matrix.rows == matrix.cols,
                       "{} orders a graph: it needs a square matrix, not {} x {}", algorithm,
                       matrix.rows, matrix.cols);
  const CsrMatrix transposed = transpose(matrix);
  Adjacency graph;
  graph.offsets.reserve(static_cast<std::size_t>(matrix.rows) + 1);
  graph.neighbours.reserve(matrix.nnz());
  for (std::int32_t row = 0; row < matrix.rows; ++row) {
    const auto out = matrix.row_cols(row), in = transposed.row_cols(row);
    std::ranges::set_union(out, in, std::back_inserter(graph.neighbours));
    const auto first = graph.neighbours.begin() + graph.offsets.back();
    graph.neighbours.erase(std::remove(first, graph.neighbours.end(), row), graph.neighbours.end());
    graph.offsets.push_back(static_cast<std::int64_t>(graph.neighbours.size()));
  }
  return graph;
}

std::vector<std::int32_t> order_by_component(
    const Adjacency& graph,
    const std::function<std::vector<std::int32_t>(const Adjacency& component)>& order_component) {
  std::vector<bool> seen(graph.size(), false);
  std::vector<std::int32_t> order, component, place(graph.size());
  order.reserve(graph.size());
  Adjacency local;
  for (std::int32_t start = 0; start < graph.size(); ++start) {
    if (seen[start]) continue;
    collect_component(graph, start, seen, component);
    for (std::size_t i = 0; i < component.size(); ++i)
      place[component[i]] = static_cast<std::int32_t>(i);
    local.offsets.assign(1, 0);
    local.neighbours.clear();
    for (const std::int32_t vertex : component) {
      for (const std::int32_t next : graph.of(vertex)) local.neighbours.push_back(place[next]);
      local.offsets.push_back(static_cast<std::int64_t>(local.neighbours.size()));
    }
    for (const std::int32_t vertex : order_component(local)) order.push_back(component[vertex]);
  }
  return order;
}

BreadthFirst breadth_first(const Adjacency& graph, std::int32_t start) {
  BreadthFirst search{{start}, std::vector<std::int32_t>(graph.size(), -1)};
  search.visited.reserve(graph.size());
  search.distance[start] = 0;
  for (std::size_t i = 0; i < search.visited.size(); ++i) {
    const std::int32_t vertex = search.visited[i];
    for (const std::int32_t next : graph.of(vertex)) {
      if (search.distance[next] >= 0) continue;
      search.distance[next] = search.distance[vertex] + 1;
      search.visited.push_back(next);
    }
  }
  return search;
}

PseudoDiameter pseudo_diameter(const Adjacency& graph) {
  constexpr int kSearches = 8;
  PseudoDiameter best;
  for (std::int32_t start = 0, search = 0; search < kSearches; ++search) {
    BreadthFirst from_here = breadth_first(graph, start);
    if (search > 0 && from_here.height() <= best.from_end.height()) break;
    best.from_end = std::move(from_here);
    const auto& [visited, distance] = best.from_end;
    start = visited.back();
    for (auto v = visited.rbegin(); v != visited.rend() && distance[*v] == distance[start]; ++v)
      if (graph.degree(*v) < graph.degree(start)) start = *v;
    best.start = start;
  }
  return best;
}

ParamSpec apply_to_both_sides() {
  return {"apply",
          std::string("symmetric"),
          "move rows and columns, or rows alone",
          {"symmetric", "rows"}};
}

Order on_sides(std::vector<std::int32_t> order, const std::string& apply) {
  Permutation rows(std::move(order));
  if (apply == "symmetric") return {rows, rows};
  return {std::move(rows), std::nullopt};
}

}  // namespace tessera
