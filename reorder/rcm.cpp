// Reverse Cuthill-McKee (Cuthill and McKee 1969, George 1971), by Boost.Graph, on the pattern of
// A + A^T without its diagonal.
//
// Departure: Boost restarts its search for a starting vertex over the whole graph for every
// connected component, which is quadratic on matrices with many of them. Here each component is
// ordered separately, the components by their smallest row.

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/cuthill_mckee_ordering.hpp>
#include <numeric>

#include "formats/base/registry.hpp"
#include "reorder/adjacency.hpp"

namespace tessera {
namespace {

/// The vertices of a connected graph in reverse Cuthill-McKee order.
std::vector<std::int32_t> reverse_cuthill_mckee(const Adjacency& component) {
  if (component.size() <= 2) {
    std::vector<std::int32_t> order(component.size());
    std::iota(order.rbegin(), order.rend(), 0);
    return order;
  }
  using Graph =
      boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                         boost::no_property, std::int32_t, std::int64_t>;
  std::vector<std::pair<std::int32_t, std::int32_t>> edges;
  edges.reserve(component.neighbours.size());
  for (std::int32_t v = 0; v < component.size(); ++v)
    for (const std::int32_t next : component.of(v)) edges.emplace_back(v, next);
  const Graph graph(boost::edges_are_sorted, edges.begin(), edges.end(), component.size());
  std::vector<boost::default_color_type> colour(component.size());
  std::vector<std::int32_t> order;
  order.reserve(component.size());
  boost::cuthill_mckee_ordering(
      graph, std::back_inserter(order),
      boost::make_iterator_property_map(colour.begin(), boost::get(boost::vertex_index, graph)),
      boost::make_out_degree_map(graph));
  std::ranges::reverse(order);
  return order;
}

class ReverseCuthillMcKee final : public Reordering {
 public:
  explicit ReverseCuthillMcKee(std::string apply) : apply_(std::move(apply)) {}

  Order order(const CsrMatrix& matrix, Watch&) const override {
    const Adjacency graph = symmetric_pattern(matrix, "reverse Cuthill-McKee");
    return on_sides(order_by_component(graph, reverse_cuthill_mckee), apply_);
  }

 private:
  std::string apply_;
};

const Register<Reordering> entry{{
    .name = "rcm",
    .summary = "reverse Cuthill-McKee on A + A^T (Boost.Graph): small bandwidth",
    .params = {apply_to_both_sides()},
    .make =
        [](const Params& params) {
          return std::make_unique<ReverseCuthillMcKee>(params.text("apply"));
        },
}};

}  // namespace
}  // namespace tessera
