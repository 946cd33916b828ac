// Sloan's order (Sloan 1986, "An algorithm for profile and wavefront reduction of sparse
// matrices"), on the pattern of A + A^T: from one end of the graph to the other, the next vertex is
// the one that enlarges the front least, weighed against its distance to the far end.
//
// It follows the priority queue of Kumfert and Pothen 1997, section 3. Departures: the two ends are
// those of George and Liu 1979; the sloan_ordering of Boost.Graph is not used, as it sorts its
// whole front for every vertex. A vertex scans its neighbours at most three times: O(nnz log nnz)
// time, at most 32 B per nonzero for the heap beside the graph.

#include "formats/base/registry.hpp"
#include "reorder/adjacency.hpp"
#include "reorder/front.hpp"

namespace tessera {
namespace {

struct Weights {
  std::int64_t distance;
  std::int64_t growth;
};

/// Sloan's states: a vertex is inactive, preactive (waiting, next to an active one), active (in the
/// front) or postactive (ordered). The front has the waiting vertices; this class marks the active
/// ones.
class SloanSearch {
 public:
  SloanSearch(const Adjacency& graph, Weights weights)
      : graph_(graph),
        weights_(weights),
        front_(graph.size()),
        active_(graph.size(), false),
        priority_(graph.size()) {}

  std::vector<std::int32_t> order() {
    const PseudoDiameter ends = pseudo_diameter(graph_);
    for (std::int32_t v = 0; v < graph_.size(); ++v)
      priority_[v] =
          weights_.distance * ends.from_end.distance[v] - weights_.growth * (graph_.degree(v) + 1);
    front_.push(ends.start, priority_[ends.start]);
    std::vector<std::int32_t> order;
    order.reserve(graph_.size());
    for (std::int32_t vertex = front_.take(); vertex >= 0; vertex = front_.take()) {
      order.push_back(vertex);
      if (!active_[vertex]) activate(vertex);
      for (const std::int32_t next : graph_.of(vertex))
        if (front_.waiting(next) && !active_[next]) activate(next);
    }
    return order;
  }

 private:
  /// The vertex joins the front: ordering it or one of its neighbours costs one vertex less.
  void activate(std::int32_t vertex) {
    active_[vertex] = true;
    raise(vertex);
    for (const std::int32_t next : graph_.of(vertex)) raise(next);
  }

  void raise(std::int32_t vertex) {
    priority_[vertex] += weights_.growth;
    if (front_.waiting(vertex) || !front_.reached(vertex)) front_.push(vertex, priority_[vertex]);
  }

  const Adjacency& graph_;
  Weights weights_;
  Front front_;
  std::vector<bool> active_;            // [vertices]
  std::vector<std::int64_t> priority_;  // [vertices]
};

class Sloan final : public Reordering {
 public:
  Sloan(Weights weights, std::string apply) : weights_(weights), apply_(std::move(apply)) {}

  Order order(const CsrMatrix& matrix, Watch&) const override {
    const auto by_sloan = [&](const Adjacency& component) {
      return SloanSearch(component, weights_).order();
    };
    return on_sides(order_by_component(symmetric_pattern(matrix, "sloan"), by_sloan), apply_);
  }

 private:
  Weights weights_;
  std::string apply_;
};

const Register<Reordering> entry{{
    .name = "sloan",
    .summary = "Sloan's order on A + A^T: small profile and wavefront",
    .params = {{"distance_weight",
                std::int64_t{1},
                "weight of the distance to the far end (Sloan's W1)",
                {},
                0,
                1000000},
               {"growth_weight",
                std::int64_t{2},
                "weight of the growth of the front (Sloan's W2)",
                {},
                0,
                1000000},
               apply_to_both_sides()},
    .make =
        [](const Params& params) {
          return std::make_unique<Sloan>(
              Weights{params.integer("distance_weight"), params.integer("growth_weight")},
              params.text("apply"));
        },
}};

}  // namespace
}  // namespace tessera
