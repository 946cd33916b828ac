// Rabbit Order (Arai et al., IPDPS 2016, section III): vertices, by ascending degree, join the
// neighbouring community that gains most modularity; the order is a depth-first walk of the
// dendrogram of these merges.
//
// Departures: one thread, so the result is the same on any machine. The graph is A + A^T with an
// edge of both directions counted twice, no diagonal; a rectangle is the bipartite graph of its
// rows and columns. Ties in degree go to the smaller index, ties in gain to the first one met.
// Time: a visit reads the edges its community has left, nnz in all where communities are found
// early, nnz times the dendrogram's depth at worst (a star costs nnz: its leaves keep no edge).
// Memory: A^T (dropped where it equals A), 16 bytes an edge still waiting to be absorbed, and about
// 50 bytes a vertex.

#include "reorder/rabbit.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

/// The undirected graph of a matrix, read from A and A^T in place.
class Graph {
 public:
  explicit Graph(const CsrMatrix& matrix)
      : a_(matrix), transposed_(transpose(matrix)), bipartite_(matrix.rows != matrix.cols) {
    const bool symmetric = !bipartite_ &&
                           std::ranges::equal(a_.row_offsets, transposed_.row_offsets) &&
                           std::ranges::equal(a_.col_indices, transposed_.col_indices);
    if (symmetric) transposed_ = CsrMatrix{};
  }

  std::int32_t vertices() const { return bipartite_ ? a_.rows + a_.cols : a_.rows; }

  /// Calls visit(neighbour) once for every nonzero of `vertex` in A and in A^T.
  template <class Visit>
  void for_each_neighbour(std::int32_t vertex, Visit visit) const {
    if (vertex < a_.rows) {
      const std::int32_t shift = bipartite_ ? a_.rows : 0;
      for (const std::int32_t col : a_.row_cols(vertex))
        if (col + shift != vertex) visit(col + shift);
    }
    const std::int32_t in_row = bipartite_ ? vertex - a_.rows : vertex;
    if (in_row < 0 || in_row >= transposed_.rows) return;
    for (const std::int32_t row : transposed_.row_cols(in_row))
      if (row != vertex) visit(row);
  }

 private:
  const CsrMatrix& a_;
  CsrMatrix transposed_;  // empty where it would repeat A
  bool bipartite_;
};

/// Who joined whom. A vertex is a leaf and, with those that joined it, a community.
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

  /// Depth first from each root; of two that joined a community the earlier one comes first.
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
        weight_(graph.vertices(), 0) {
    std::iota(community_.begin(), community_.end(), 0);
    for (std::int32_t v = 0; v < graph.vertices(); ++v)
      graph.for_each_neighbour(v, [&](std::int32_t) { ++strength_[v]; });
    total_strength_ = std::accumulate(strength_.begin(), strength_.end(), std::int64_t{0});
  }

  std::vector<std::int32_t> order() {
    std::vector<std::int32_t> by_degree(community_.size()), roots;
    std::iota(by_degree.begin(), by_degree.end(), 0);
    std::ranges::stable_sort(by_degree, {}, [&](std::int32_t v) { return strength_[v]; });
    // Merges change strengths, so the order is fixed before the first of them.
    std::vector<bool> visited(community_.size(), false);
    for (const std::int32_t v : by_degree) {
      visited[v] = true;
      gather(v);
      const std::int32_t u = best_community(v);
      if (u == Dendrogram::kNone) {
        roots.push_back(v);
      } else {
        if (!visited[u]) keep_edges(v);  // a visited community reads its edges no more
        community_[v] = u;
        strength_[u] += strength_[v];
        dendrogram_.add_child(u, v);
      }
      for (const std::int32_t other : touched_) weight_[other] = 0;
      touched_.clear();
    }
    return dendrogram_.walk(roots);
  }

 private:
  struct Edge {
    std::int32_t to;
    std::int64_t weight;
  };

  std::int32_t community_of(std::int32_t v) {
    while (community_[v] != v) v = community_[v] = community_[community_[v]];
    return v;
  }

  void add(std::int32_t v, std::int32_t to, std::int64_t weight) {
    const std::int32_t other = community_of(to);
    if (other == v) return;
    if (weight_[other] == 0) touched_.push_back(other);
    weight_[other] += weight;
  }

  /// The edges of v and of those that joined it, summed by the community they lead to now.
  void gather(std::int32_t v) {
    graph_.for_each_neighbour(v, [&](std::int32_t to) { add(v, to, 1); });
    for (std::int32_t child = dendrogram_.first_child(v); child != Dendrogram::kNone;
         child = dendrogram_.next_sibling(child)) {
      for (const Edge& edge : left_[child]) add(v, edge.to, edge.weight);
      std::vector<Edge>().swap(left_[child]);
    }
  }

  /// dQ = 2 (w_uv / 2m - k_u k_v / (2m)^2), here times m: the largest one that is positive.
  std::int32_t best_community(std::int32_t v) const {
    std::int32_t best = Dendrogram::kNone;
    double best_gain = 0;
    const double share = static_cast<double>(strength_[v]) /
                         static_cast<double>(std::max<std::int64_t>(1, total_strength_));
    for (const std::int32_t u : touched_) {
      const double gain =
          static_cast<double>(weight_[u]) - static_cast<double>(strength_[u]) * share;
      if (gain <= best_gain) continue;
      best_gain = gain;
      best = u;
    }
    return best;
  }

  void keep_edges(std::int32_t v) {
    left_[v].reserve(touched_.size());
    for (const std::int32_t u : touched_) left_[v].push_back({u, weight_[u]});
  }

  const Graph& graph_;
  Dendrogram dendrogram_;
  std::vector<std::int32_t> community_;  // [vertices] towards the community a vertex is in
  std::vector<std::int64_t> strength_;   // [vertices] k of the community, valid for its vertex
  std::int64_t total_strength_ = 0;      // 2m
  std::vector<std::vector<Edge>> left_;  // [vertices] edges to be absorbed by the parent
  std::vector<std::int64_t> weight_;     // [vertices] of the edges gathered, 0 elsewhere
  std::vector<std::int32_t> touched_;    // communities with weight
};

class Rabbit final : public Reordering {
 public:
  explicit Rabbit(bool symmetric) : symmetric_(symmetric) {}

  Order order(const CsrMatrix& matrix, Watch&) const override {
    RabbitWalk walk = rabbit_walk(matrix);
    Permutation rows(std::move(walk.rows));
    if (!symmetric_) return {std::move(rows), std::nullopt};
    return {std::move(rows), Permutation(std::move(walk.cols))};
  }

 private:
  bool symmetric_;
};

const Register<Reordering> entry{{
    .name = "rabbit",
    .summary = "Rabbit Order: communities by modularity, along their dendrogram",
    .params = {{"apply",
                std::string("symmetric"),
                "move rows and columns, or rows alone",
                {"symmetric", "rows"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<Rabbit>(params.text("apply") == "symmetric");
        },
}};

}  // namespace

RabbitWalk rabbit_walk(const CsrMatrix& matrix) {
  const bool square = matrix.rows == matrix.cols;
  require<Unsupported>(
      square || std::int64_t{matrix.rows} + matrix.cols <= std::numeric_limits<std::int32_t>::max(),
      "Rabbit Order numbers the rows and columns of a rectangle together: {} + {} are too many",
      matrix.rows, matrix.cols);
  const Graph graph(matrix);
  std::vector<std::int32_t> order = Merging(graph).order();
  if (square) return {order, order};
  RabbitWalk walk;
  for (const std::int32_t vertex : order)
    vertex < matrix.rows ? walk.rows.push_back(vertex) : walk.cols.push_back(vertex - matrix.rows);
  return walk;
}

}  // namespace tessera
