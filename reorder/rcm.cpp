// Reverse Cuthill-McKee (Cuthill and McKee 1969, George 1971), by Boost.Graph, on the pattern of
// A + A^T without its diagonal.
//
// Departure: Boost restarts its search for a starting vertex over the whole graph for every
// connected component, which is quadratic on matrices with many of them. Here the components are
// split off first, in the order of their smallest row, and each is ordered by itself.

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/cuthill_mckee_ordering.hpp>
#include <numeric>

#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

/// Neighbours in A + A^T, each once, without the vertex itself.
struct Adjacency {
  std::vector<std::int64_t> offsets;     // [rows + 1]
  std::vector<std::int32_t> neighbours;  // [offsets.back()]
};

Adjacency symmetric_pattern(const CsrMatrix& matrix) {
  const CsrMatrix transposed = transpose(matrix);
  Adjacency graph;
  graph.offsets.push_back(0);
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

/// Calls visit(vertices of a component, breadth first) for each component.
template <class Visit>
void for_each_component(const Adjacency& graph, Visit visit) {
  const auto n = static_cast<std::int32_t>(graph.offsets.size()) - 1;
  std::vector<bool> seen(n, false);
  std::vector<std::int32_t> component;
  for (std::int32_t start = 0; start < n; ++start) {
    if (seen[start]) continue;
    component.assign(1, start);
    seen[start] = true;
    for (std::size_t i = 0; i < component.size(); ++i) {
      for (std::int64_t e = graph.offsets[component[i]]; e < graph.offsets[component[i] + 1]; ++e) {
        const std::int32_t next = graph.neighbours[e];
        if (!seen[next]) component.push_back(next);
        seen[next] = true;
      }
    }
    visit(component);
  }
}

/// The component's vertices in Cuthill-McKee order. `place` is scratch, [rows].
std::vector<std::int32_t> cuthill_mckee(const Adjacency& graph,
                                        const std::vector<std::int32_t>& component,
                                        std::vector<std::int32_t>& place) {
  if (component.size() <= 2) return component;
  using Graph =
      boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                         boost::no_property, std::int32_t, std::int64_t>;
  for (std::size_t i = 0; i < component.size(); ++i)
    place[component[i]] = static_cast<std::int32_t>(i);
  std::vector<std::pair<std::int32_t, std::int32_t>> edges;
  for (std::size_t i = 0; i < component.size(); ++i) {
    for (std::int64_t e = graph.offsets[component[i]]; e < graph.offsets[component[i] + 1]; ++e)
      edges.emplace_back(static_cast<std::int32_t>(i), place[graph.neighbours[e]]);
  }
  const Graph local(boost::edges_are_sorted, edges.begin(), edges.end(),
                    static_cast<std::int32_t>(component.size()));
  std::vector<boost::default_color_type> colour(component.size());
  std::vector<std::int32_t> order;
  order.reserve(component.size());
  boost::cuthill_mckee_ordering(
      local, std::back_inserter(order),
      boost::make_iterator_property_map(colour.begin(), boost::get(boost::vertex_index, local)),
      boost::make_out_degree_map(local));
  for (std::int32_t& vertex : order) vertex = component[vertex];
  return order;
}

class ReverseCuthillMcKee final : public Reordering {
 public:
  explicit ReverseCuthillMcKee(bool symmetric) : symmetric_(symmetric) {}

  Order order(const CsrMatrix& matrix) const override {
    require<Unsupported>(
        matrix.rows == matrix.cols,
        "reverse Cuthill-McKee orders a graph: it needs a square matrix, not {} x {}", matrix.rows,
        matrix.cols);
    const Adjacency graph = symmetric_pattern(matrix);
    std::vector<std::int32_t> order, place(matrix.rows);
    order.reserve(matrix.rows);
    for_each_component(graph, [&](const std::vector<std::int32_t>& component) {
      const auto part = cuthill_mckee(graph, component, place);
      order.insert(order.end(), part.rbegin(), part.rend());
    });
    Permutation rows(std::move(order));
    if (symmetric_) return {rows, rows};
    return {std::move(rows), std::nullopt};
  }

 private:
  bool symmetric_;
};

const Register<Reordering> entry{{
    .name = "rcm",
    .summary = "reverse Cuthill-McKee on A + A^T (Boost.Graph): small bandwidth",
    .params = {{"apply",
                std::string("symmetric"),
                "move rows and columns, or rows alone",
                {"symmetric", "rows"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<ReverseCuthillMcKee>(params.text("apply") == "symmetric");
        },
}};

}  // namespace
}  // namespace tessera
