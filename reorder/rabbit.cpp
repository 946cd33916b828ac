// Rabbit Order (Arai et al., IPDPS 2016, section III): vertices, by ascending degree, join the
// neighbouring community that gains most modularity; the order is a depth-first walk of the
// dendrogram of these merges.
//
// Departures. The paper's compare-and-swap makes the result depend on the timing of threads. Here
// vertices are processed in batches: all threads sum edges and choose communities in the state at
// the start of the batch; then one thread merges in order, and chooses again, from the summed edges
// and those of the vertices that joined, where either side of a merge has changed since. The
// batches depend on the graph alone, so the result is the same at any number of threads. The graph
// (graph.hpp) is A + A^T. Ties in degree go to the smaller index, ties in gain to the first one
// met. Time: a visit reads the remaining edges of its community, in total nnz where communities are
// found early and nnz times the dendrogram's depth at worst (a star costs nnz: its leaves keep no
// edge). Memory: the graph, 3 or 4 bytes per edge not absorbed yet (7 or 8 where its weight is
// not one), and about 60 bytes per vertex.

#include "reorder/rabbit.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <span>
#include <utility>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "reorder/community_weights.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

/// The tree of merges. A vertex is a leaf and, together with the vertices that joined it, a
/// community.
class Dendrogram {
 public:
  explicit Dendrogram(std::int32_t vertices)
      : first_child_(vertices, kNone), last_child_(vertices, kNone), next_(vertices, kNone) {}

  static constexpr std::int32_t kNone = -1;

  void add_child(std::int32_t parent, std::int32_t child) {
    (first_child_[parent] == kNone ? first_child_[parent] : next_[last_child_[parent]]) = child;
    last_child_[parent] = child;
  }
  std::int32_t first_child(std::int32_t vertex) const { return first_child_[vertex]; }
  std::int32_t next_sibling(std::int32_t vertex) const { return next_[vertex]; }

  /// The vertices depth first from each root; children follow in the order in which they joined.
  std::vector<std::int32_t> walk(const std::vector<std::int32_t>& roots) const {
    std::vector<std::int32_t> order, waiting;
    order.reserve(next_.size());
    for (const std::int32_t root : roots) {
      waiting.push_back(root);
      while (!waiting.empty()) {
        const std::int32_t vertex = waiting.back();
        waiting.pop_back();
        order.push_back(vertex);
        if (next_[vertex] != kNone) waiting.push_back(next_[vertex]);
        if (first_child_[vertex] != kNone) waiting.push_back(first_child_[vertex]);
      }
    }
    return order;
  }

 private:
  std::vector<std::int32_t> first_child_, last_child_, next_;  // [vertices] each
};

/// One pass of merges over the vertices of a graph.
class Merging {
 public:
  explicit Merging(const Graph& graph)
      : graph_(graph),
        dendrogram_(graph.vertices()),
        community_(graph.vertices()),
        strength_(graph.vertices(), 0),
        left_(graph.vertices()),
        visited_(graph.vertices(), false),
        width_(WaitingEdges::width_of(graph.vertices())) {
    std::iota(community_.begin(), community_.end(), 0);
    parallel_for(graph.vertices(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      for (auto v = static_cast<std::int32_t>(begin); v < end; ++v)
        graph.for_each_neighbour(v, [&](std::int32_t) { ++strength_[v]; });
    });
    total_strength_ = std::accumulate(strength_.begin(), strength_.end(), std::int64_t{0});
  }

  std::vector<std::int32_t> order(Watch& watch) {
    const std::vector<std::int32_t> by_degree = vertices_by_degree();
    std::vector<std::int32_t> roots;
    for (std::size_t done = 0; done < by_degree.size() && !watch.stop();) {
      const auto batch = next_batch(std::span(by_degree).subspan(done));
      choose(batch, watch);
      if (watch.stopped()) break;
      for (std::size_t i = 0; i < batch.size(); ++i)
        if (!merge(batch[i], choices_[i])) roots.push_back(batch[i]);
      done += batch.size();
      watch.report(static_cast<double>(done) / static_cast<double>(by_degree.size()));
    }
    for (const std::int32_t v : by_degree)  // only vertices left after a stop
      if (!visited_[v] && community_[v] == v) roots.push_back(v);
    return dendrogram_.walk(roots);
  }

 private:
  /// A community to join, and the values that tell whether it is still the best.
  struct Choice {
    WeightedEdge edge{Dendrogram::kNone, 0};  // kNone: no community gains
    std::int64_t own_strength = 0;            // the vertex's strength at the time of the choice
    double next_gain = 0;                     // gain of the second-best community
  };

  /// The vertices by ascending degree, computed before merges change the strengths.
  std::vector<std::int32_t> vertices_by_degree() const {
    const std::int64_t most = strength_.empty() ? 0 : *std::ranges::max_element(strength_);
    std::vector<std::int32_t> place(most + 2, 0), order(strength_.size());
    for (const std::int64_t degree : strength_) ++place[degree + 1];
    std::partial_sum(place.begin(), place.end(), place.begin());
    for (std::int32_t v = 0; v < graph_.vertices(); ++v) order[place[strength_[v]]++] = v;
    return order;
  }

  /// The vertices to visit next: with few of the graph's edges, so that few choices become
  /// outdated, but with enough work for several threads.
  std::span<const std::int32_t> next_batch(std::span<const std::int32_t> waiting) const {
    constexpr std::int64_t kShareOfEdges = 24, kMostEdges = 1 << 21;
    const std::int64_t wanted = std::min(total_strength_ / kShareOfEdges, kMostEdges);
    std::size_t size = 0;
    for (std::int64_t edges = 0; size < waiting.size() && (size == 0 || edges < wanted); ++size)
      edges += graph_.degree_bound(waiting[size]) + 1;
    return waiting.first(size);
  }

  /// Sums the edges of each vertex of a batch and chooses its community in the current state.
  void choose(std::span<const std::int32_t> batch, Watch& watch) {
    constexpr std::int64_t kPieces = 32, kEdgesWorthThreads = 1 << 13;
    const auto size = static_cast<std::int64_t>(batch.size());
    const bool many = total_strength_ / kPieces > kEdgesWorthThreads;
    choices_.resize(batch.size());
    parallel_for(size, many ? size / kPieces + 1 : size, [&](std::int64_t begin, std::int64_t end) {
      if (watch.stop()) return;
      CommunityWeights weights;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int32_t v = batch[i];
        weights.start(graph_.degree_bound(v) + edges_of_children(v));
        graph_.for_each_neighbour(v, [&](std::int32_t to) { add(weights, v, {to, 1}); });
        absorb_children(v, weights);
        choices_[i] = best_choice(v, weights);
        left_[v].assign(weights.edges(), width_);
      }
    });
  }

  /// Merges v into the community of largest positive gain; false if there is none.
  bool merge(std::int32_t v, Choice choice) {
    visited_[v] = true;
    if (is_outdated(v, choice)) {
      weights_.start(left_[v].bound(width_) + edges_of_children(v));
      left_[v].for_each(width_, [&](const WeightedEdge& edge) { add(weights_, v, edge); });
      absorb_children(v, weights_);
      choice = best_choice(v, weights_);
      left_[v].assign(weights_.edges(), width_);
    }
    const std::int32_t u = choice.edge.to;
    if (u == Dendrogram::kNone || visited_[u])  // a visited community never reads its edges again
      left_[v].clear();
    if (u == Dendrogram::kNone) return false;
    community_[v] = u;
    strength_[u] += strength_[v];
    dendrogram_.add_child(u, v);
    return true;
  }

  /// True when vertices have joined v since the choice, or the community has joined another one or
  /// has grown so much that the second best may be better: strengths only grow, so gains only fall.
  bool is_outdated(std::int32_t v, const Choice& choice) const {
    if (strength_[v] != choice.own_strength) return true;
    const std::int32_t u = choice.edge.to;
    if (u == Dendrogram::kNone) return false;
    if (community_[u] != u) return true;
    const double gain = gain_of(choice.edge, share_of(v));
    return gain <= 0 || gain < choice.next_gain;
  }

  /// The community of v. Several threads may call it while no merge runs: they only shorten paths.
  std::int32_t community_of(std::int32_t v) {
    const auto parent = [&](std::int32_t child) { return std::atomic_ref(community_[child]); };
    for (;;) {
      const std::int32_t up = parent(v).load(std::memory_order_relaxed);
      if (up == v) return v;
      const std::int32_t further = parent(up).load(std::memory_order_relaxed);
      if (further == up) return up;
      parent(v).store(further, std::memory_order_relaxed);
      v = further;
    }
  }

  void add(CommunityWeights& weights, std::int32_t v, const WeightedEdge& edge) {
    const std::int32_t other = community_of(edge.to);
    if (other != v) weights.add(other, edge.weight);
  }

  std::int64_t edges_of_children(std::int32_t v) const {
    std::int64_t edges = 0;
    for (std::int32_t child = dendrogram_.first_child(v); child != Dendrogram::kNone;
         child = dendrogram_.next_sibling(child))
      edges += left_[child].bound(width_);
    return edges;
  }

  /// Moves the remaining edges of v's children into `weights`.
  void absorb_children(std::int32_t v, CommunityWeights& weights) {
    for (std::int32_t child = dendrogram_.first_child(v); child != Dendrogram::kNone;
         child = dendrogram_.next_sibling(child)) {
      left_[child].for_each(width_, [&](const WeightedEdge& edge) { add(weights, v, edge); });
      left_[child].clear();
    }
  }

  /// dQ = 2 (w_uv / 2m - k_u k_v / (2m)^2), here times m, with `share` = k_v / 2m.
  double gain_of(const WeightedEdge& edge, double share) const {
    return edge.weight - static_cast<double>(strength_[edge.to]) * share;
  }

  double share_of(std::int32_t v) const {
    return static_cast<double>(strength_[v]) /
           static_cast<double>(std::max<std::int64_t>(1, total_strength_));
  }

  /// The choice with the largest positive gain.
  Choice best_choice(std::int32_t v, const CommunityWeights& weights) const {
    Choice best{.own_strength = strength_[v]};
    double best_gain = 0;
    const double share = share_of(v);
    for (const WeightedEdge& edge : weights.edges()) {
      const double gain = gain_of(edge, share);
      if (gain > best_gain) {
        best.next_gain = std::exchange(best_gain, gain);
        best.edge = edge;
      } else {
        best.next_gain = std::max(best.next_gain, gain);
      }
    }
    return best;
  }

  const Graph& graph_;
  Dendrogram dendrogram_;
  std::vector<std::int32_t> community_;  // [vertices] towards its community
  std::vector<std::int64_t> strength_;   // [vertices] k of the community, valid for its vertex
  std::int64_t total_strength_ = 0;      // 2m
  std::vector<WaitingEdges> left_;       // [vertices] edges that the parent will absorb
  std::vector<bool> visited_;            // [vertices]
  const int width_;                      // of the numbers of communities in left_
  std::vector<Choice> choices_;          // [batch]
  CommunityWeights weights_;             // scratch for repeated choices
};

class Rabbit final : public Reordering {
 public:
  Rabbit(std::string apply, double time_limit_s)
      : apply_(std::move(apply)), time_limit_s_(time_limit_s) {}

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(time_limit_s_);
    return on_sides(rabbit_walk(matrix, watch), apply_);
  }

 private:
  std::string apply_;
  double time_limit_s_;
};

const Register<Reordering> entry{{
    .name = "rabbit",
    .summary = "Rabbit Order: communities by modularity, along their dendrogram",
    .params = {apply_to_both_sides(), time_limit_param()},
    .make =
        [](const Params& params) {
          return std::make_unique<Rabbit>(params.text("apply"), params.real("time_limit_s"));
        },
}};

}  // namespace

GraphOrder rabbit_walk(const CsrMatrix& matrix, Watch& watch) {
  const Graph graph(matrix, "Rabbit Order");
  std::vector<std::int32_t> order = Merging(graph).order(watch);
  // The lists of edges, of all sizes, leave memory in pieces that the allocator would keep: of a
  // graph with hubs six bytes a nonzero, which what follows does not fit into.
  constexpr std::int64_t kWorthTrimming = std::int64_t{1} << 24;
  if (matrix.nnz() >= kWorthTrimming) malloc_trim(0);
  return graph.split(order);
}

}  // namespace tessera
