// King's order (King 1970, "An automatic reordering scheme for simultaneous equations derived from
// network systems"), on the pattern of A + A^T: of the vertices next to those already ordered, the
// one with the fewest new neighbours is next, which keeps the profile small.
//
// Departures: the start is a pseudo-peripheral vertex (George and Liu 1979). The king_ordering of
// Boost.Graph is not used, as it stays within one breadth-first level and takes O(d^2 log d) per
// vertex of degree d; here every vertex scans its neighbours twice and pushes at most once per
// neighbour: O(nnz log nnz) time, at most 16 B per nonzero for the heap beside the graph.

#include "formats/base/registry.hpp"
#include "reorder/adjacency.hpp"
#include "reorder/front.hpp"

namespace tessera {
namespace {

std::vector<std::int32_t> king(const Adjacency& graph) {
  Front front(graph.size());
  std::vector<std::int64_t> unreached(graph.size());  // neighbours that the front has not reached
  for (std::int32_t v = 0; v < graph.size(); ++v) unreached[v] = graph.degree(v);
  const auto reach = [&](std::int32_t vertex) {
    front.push(vertex, -unreached[vertex]);
    for (const std::int32_t next : graph.of(vertex)) {
      --unreached[next];
      if (front.waiting(next)) front.push(next, -unreached[next]);
    }
  };

  std::vector<std::int32_t> order;
  order.reserve(graph.size());
  reach(pseudo_diameter(graph).start);
  for (std::int32_t vertex = front.take(); vertex >= 0; vertex = front.take()) {
    order.push_back(vertex);
    for (const std::int32_t next : graph.of(vertex))
      if (!front.reached(next)) reach(next);
  }
  return order;
}

class King final : public Reordering {
 public:
  explicit King(std::string apply) : apply_(std::move(apply)) {}

  Order order(const CsrMatrix& matrix, Watch&) const override {
    return on_sides(order_by_component(symmetric_pattern(matrix, "king"), king), apply_);
  }

 private:
  std::string apply_;
};

const Register<Reordering> entry{{
    .name = "king",
    .summary = "King's order on A + A^T: small profile, the narrowest front first",
    .params = {apply_to_both_sides()},
    .make = [](const Params& params) { return std::make_unique<King>(params.text("apply")); },
}};

}  // namespace
}  // namespace tessera
