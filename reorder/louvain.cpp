// Louvain (Blondel, Guillaume, Lambiotte and Lefebvre 2008) and Leiden (Traag, Waltman and van Eck
// 2019): vertices move to the neighbouring community that gains most modularity, communities become
// vertices, and so on; the order walks this hierarchy depth first.
//
// refine = leiden aggregates the well-connected parts of the communities instead of the
// communities. The graph (graph.hpp) is A + A^T. Readings and departures: vertices are visited in a
// seeded random order, then only those with a neighbour that has moved away (as in Leiden's paper).
// This is repeated three times per level, not until no vertex moves: smaller communities make a
// finer hierarchy, and later gains follow on the next level (shuffled wave: MeanNNZTC 13.2, until
// none moves 10.8). No vertex moves out into a community of its own; the refinement takes the best
// community, not a random one of those that gain. Communities and members are walked by their
// lowest vertex. One thread. Memory: the graph, 8 bytes per edge between communities of the first
// level (twice while the next level is made), and about 60 bytes per vertex.

#include <algorithm>
#include <numeric>
#include <utility>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "reorder/community_weights.hpp"
#include "reorder/graph.hpp"

namespace tessera {
namespace {

/// The first level: the vertices of the matrix's graph, with edges of weight 1.
struct FirstLevel {
  const Graph& graph;

  std::int32_t vertices() const { return graph.vertices(); }
  std::int64_t degree_bound(std::int32_t v) const { return graph.degree_bound(v); }
  template <class Visit>
  void for_each_edge(std::int32_t v, Visit visit) const {
    graph.for_each_neighbour(v, [&](std::int32_t to) { visit(WeightedEdge{to, 1}); });
  }
};

/// A level whose vertices are the communities of the previous one. Edges within a community count
/// only in its strength.
struct Aggregate {
  std::vector<std::int64_t> offsets{0};  // [vertices + 1]
  std::vector<WeightedEdge> edges;       // [offsets.back()]

  std::int32_t vertices() const { return static_cast<std::int32_t>(offsets.size()) - 1; }
  std::int64_t degree_bound(std::int32_t v) const { return offsets[v + 1] - offsets[v]; }
  template <class Visit>
  void for_each_edge(std::int32_t v, Visit visit) const {
    for (std::int64_t e = offsets[v]; e < offsets[v + 1]; ++e) visit(edges[e]);
  }
};

using Communities = std::vector<std::int32_t>;  // [vertices] of a level

/// Numbers communities by their first vertex, without gaps, and returns their number.
std::int32_t renumber(Communities& community) {
  std::vector<std::int32_t> number(community.size(), -1);
  std::int32_t count = 0;
  for (std::int32_t& c : community) {
    if (number[c] < 0) number[c] = count++;
    c = number[c];
  }
  return count;
}

/// The vertices by ascending key in [0, keys), ties by number.
std::vector<std::int32_t> sorted_by(const std::vector<std::int32_t>& key, std::int32_t keys) {
  std::vector<std::int32_t> place(static_cast<std::size_t>(keys) + 1, 0), order(key.size());
  for (const std::int32_t k : key) ++place[k + 1];
  std::partial_sum(place.begin(), place.end(), place.begin());
  for (std::size_t v = 0; v < key.size(); ++v)
    order[place[key[v]]++] = static_cast<std::int32_t>(v);
  return order;
}

/// The work on one level: finding its communities and their well-connected parts.
template <class Level>
class Moving {
 public:
  Moving(const Level& level, const std::vector<std::int64_t>& strength, double scale, Watch& watch)
      : level_(level), strength_(strength), scale_(scale), watch_(watch) {}

  /// Moves vertices that gain by moving, in `rounds` rounds: the first visits all vertices, the
  /// others those next to a vertex that has moved.
  void move(Communities& community, std::int64_t rounds, std::uint64_t seed) {
    std::vector<std::int64_t> total = totals(community);
    std::vector<std::int32_t> waiting = random_order(seed), next;
    std::vector<bool> is_waiting(waiting.size(), true);
    for (std::int64_t round = 0; round < rounds && !waiting.empty(); ++round) {
      for (const std::int32_t v : waiting) {
        if (must_stop()) return;
        is_waiting[v] = false;
        sum_by(community, v);
        const std::int32_t from = community[v], to = best_move(v, from, total);
        if (to == from) continue;
        community[v] = to;
        total[from] -= strength_[v];
        total[to] += strength_[v];
        level_.for_each_edge(v, [&](const WeightedEdge& edge) {
          if (community[edge.to] == to || is_waiting[edge.to]) return;
          is_waiting[edge.to] = true;
          next.push_back(edge.to);
        });
      }
      waiting.swap(next);
      next.clear();
    }
  }

  /// The well-connected parts of the communities: a vertex joins a part only when it is well
  /// connected.
  Communities refined(const Communities& community, std::uint64_t seed) {
    Communities part(community.size());
    std::iota(part.begin(), part.end(), 0);
    const std::vector<std::int64_t> total = totals(community);
    std::vector<std::int64_t> part_total = strength_, outward = weights_within(community);
    std::vector<std::int32_t> members(part.size(), 1);
    const auto is_well_connected = [&](std::int32_t p, std::int32_t c) {
      const auto inside = static_cast<double>(part_total[p]);
      return static_cast<double>(outward[p]) >=
             scale_ * inside * (static_cast<double>(total[c]) - inside);
    };
    for (const std::int32_t v : random_order(seed)) {
      if (must_stop()) break;
      const std::int32_t c = community[v];
      if (part[v] != v || members[v] != 1 || !is_well_connected(v, c)) continue;
      sum_by(part, v, [&](std::int32_t to) { return community[to] == c; });
      WeightedEdge best{v, 0};
      double best_gain = 0;
      for (const WeightedEdge& edge : weights_.edges()) {
        if (!is_well_connected(edge.to, c)) continue;
        const double gain = gain_of(v, edge.weight, part_total[edge.to]);
        if (gain > best_gain) best_gain = gain, best = edge;
      }
      if (best.to == v) continue;
      part[v] = best.to;
      members[v] = 0;
      ++members[best.to];
      part_total[best.to] += strength_[v];
      outward[best.to] += outward[v] - 2 * std::int64_t{best.weight};
    }
    return part;
  }

  /// The level whose vertices are these `count` communities.
  Aggregate aggregate(const Communities& community, std::int32_t count) {
    Aggregate next;
    next.offsets.reserve(static_cast<std::size_t>(count) + 1);
    const std::vector<std::int32_t> members = sorted_by(community, count);
    for (std::size_t first = 0, last; first < members.size(); first = last) {
      const std::int32_t c = community[members[first]];
      std::int64_t bound = 0;
      for (last = first; last < members.size() && community[members[last]] == c; ++last)
        bound += level_.degree_bound(members[last]);
      weights_.start(std::min<std::int64_t>(bound, count));
      for (std::size_t i = first; i < last; ++i) {
        level_.for_each_edge(members[i], [&](const WeightedEdge& edge) {
          if (community[edge.to] != c) weights_.add(community[edge.to], edge.weight);
        });
      }
      next.edges.insert(next.edges.end(), weights_.edges().begin(), weights_.edges().end());
      next.offsets.push_back(static_cast<std::int64_t>(next.edges.size()));
    }
    return next;
  }

  std::vector<std::int64_t> totals(const Communities& community) const {
    std::vector<std::int64_t> total(community.size(), 0);
    for (std::size_t v = 0; v < community.size(); ++v) total[community[v]] += strength_[v];
    return total;
  }

 private:
  /// The modularity, times m, that v gains by joining a community that it is not in.
  double gain_of(std::int32_t v, std::uint32_t weight, std::int64_t total) const {
    return weight - scale_ * static_cast<double>(strength_[v]) * static_cast<double>(total);
  }

  /// The best community for v: `from` unless another one is better by more than rounding errors.
  std::int32_t best_move(std::int32_t v, std::int32_t from,
                         const std::vector<std::int64_t>& total) const {
    std::uint32_t weight_here = 0;
    for (const WeightedEdge& edge : weights_.edges())
      if (edge.to == from) weight_here = edge.weight;
    std::int32_t best = from;
    double best_gain = gain_of(v, weight_here, total[from] - strength_[v]) +
                       1e-12 * static_cast<double>(strength_[v]);
    for (const WeightedEdge& edge : weights_.edges()) {
      const double gain = gain_of(v, edge.weight, total[edge.to]);
      if (edge.to == from || gain <= best_gain) continue;
      best_gain = gain;
      best = edge.to;
    }
    return best;
  }

  void sum_by(const Communities& community, std::int32_t v) {
    sum_by(community, v, [](std::int32_t) { return true; });
  }

  template <class Wanted>
  void sum_by(const Communities& community, std::int32_t v, Wanted wanted) {
    const std::int64_t bound = level_.degree_bound(v);
    weights_.start(bound);
    level_.for_each_edge(v, [&](const WeightedEdge& edge) {
      if (wanted(edge.to)) weights_.add(community[edge.to], edge.weight);
    });
    edges_ += bound + 1;
  }

  std::vector<std::int64_t> weights_within(const Communities& community) const {
    std::vector<std::int64_t> within(community.size(), 0);
    for (std::int32_t v = 0; v < level_.vertices(); ++v) {
      level_.for_each_edge(v, [&](const WeightedEdge& edge) {
        if (community[edge.to] == community[v]) within[v] += edge.weight;
      });
    }
    return within;
  }

  std::vector<std::int32_t> random_order(std::uint64_t seed) const {
    std::vector<std::int32_t> order(strength_.size());
    std::iota(order.begin(), order.end(), 0);
    RandomSequence(seed).shuffle(order);
    return order;
  }

  bool must_stop() {
    constexpr std::int64_t kEdgesPerLook = 1 << 16;
    if (edges_ < kEdgesPerLook) return watch_.stopped();
    edges_ = 0;
    return watch_.stop();
  }

  const Level& level_;
  const std::vector<std::int64_t>& strength_;  // [vertices] of the level
  double scale_;                               // resolution / 2m
  Watch& watch_;
  CommunityWeights weights_;
  std::int64_t edges_ = 0;  // processed since the last watch.stop()
};

struct Settings {
  bool leiden;
  double resolution;
  std::int64_t rounds;
  std::uint64_t seed;
};

/// The communities of all levels, from single vertices up.
class Hierarchy {
 public:
  Hierarchy(const Graph& graph, const Settings& settings, Watch& watch)
      : settings_(settings), watch_(watch), strength_(graph.vertices(), 0) {
    for (std::int32_t v = 0; v < graph.vertices(); ++v)
      graph.for_each_neighbour(v, [&](std::int32_t) { ++strength_[v]; });
    const auto total = std::accumulate(strength_.begin(), strength_.end(), std::int64_t{0});
    scale_ = settings.resolution / static_cast<double>(std::max<std::int64_t>(1, total));
    community_.resize(graph.vertices());
    std::iota(community_.begin(), community_.end(), 0);
    vertices_ = graph.vertices();
    Aggregate level;
    for (bool more = climb(FirstLevel{graph}, level); more;) {
      const Aggregate below = std::move(level);
      more = climb(below, level);
    }
  }

  /// The vertices of the graph, depth first.
  std::vector<std::int32_t> walk() const {
    std::vector<std::int32_t> order;  // of the level above, then of this one
    for (auto above = above_.rbegin(); above != above_.rend(); ++above) {
      const auto count = 1 + (above->empty() ? -1 : *std::ranges::max_element(*above));
      std::vector<std::int32_t> place(count), key(above->size());
      std::iota(place.begin(), place.end(), 0);
      for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<std::int32_t>(i);
      for (std::size_t v = 0; v < key.size(); ++v) key[v] = place[(*above)[v]];
      order = sorted_by(key, count);
    }
    return order;
  }

 private:
  /// Finds the communities of a level and makes the next level; false when there is none.
  template <class Level>
  bool climb(const Level& level, Aggregate& next) {
    Moving<Level> moving(level, strength_, scale_, watch_);
    const std::uint64_t seed = random_bits(settings_.seed, above_.size());
    moving.move(community_, settings_.rounds, seed);
    Communities part = community_;
    if (settings_.leiden) part = moving.refined(community_, seed + 1);
    const std::int32_t count = renumber(part);
    renumber(community_);
    if (count == level.vertices() || watch_.stopped()) {
      above_.push_back(std::move(community_));
      return false;
    }
    watch_.report(1 - static_cast<double>(count) / vertices_);
    next = moving.aggregate(part, count);
    strength_ = moving.totals(part);
    strength_.resize(count);
    Communities of_parts(count);
    for (std::size_t v = 0; v < part.size(); ++v) of_parts[part[v]] = community_[v];
    community_ = std::move(of_parts);
    above_.push_back(std::move(part));
    return true;
  }

  Settings settings_;
  Watch& watch_;
  std::int32_t vertices_ = 0;           // of the graph
  double scale_ = 0;                    // resolution / 2m
  std::vector<std::int64_t> strength_;  // [vertices] of the level
  Communities community_;               // of the level, so far
  std::vector<Communities> above_;      // [levels] vertex of the next level, or top community
};

class Louvain final : public Reordering {
 public:
  Louvain(Settings settings, std::string apply, double time_limit_s)
      : settings_(settings), apply_(std::move(apply)), time_limit_s_(time_limit_s) {}

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(time_limit_s_);
    const Graph graph(matrix, "louvain");
    return on_sides(graph.split(Hierarchy(graph, settings_, watch).walk()), apply_);
  }

 private:
  Settings settings_;
  std::string apply_;
  double time_limit_s_;
};

const Register<Reordering> entry{{
    .name = "louvain",
    .summary = "Louvain or Leiden: a hierarchy of communities by modularity, walked depth first",
    .params =
        {{"refine",
          std::string("none"),
          "vertices of the next level: communities (none) or their well-connected parts (leiden)",
          {"none", "leiden"}},
         {"resolution",
          1.0,
          "resolution of the modularity; larger values give smaller communities",
          {},
          1e-6,
          1e6},
         {"rounds",
          std::int64_t{3},
          "largest number of visits of a vertex on a level",
          {},
          1,
          0x1p30},
         {"seed", std::int64_t{1}, "seed of the orders of visits"},
         time_limit_param(),
         apply_to_both_sides()},
    .make =
        [](const Params& params) {
          return std::make_unique<Louvain>(
              Settings{.leiden = params.text("refine") == "leiden",
                       .resolution = params.real("resolution"),
                       .rounds = params.integer("rounds"),
                       .seed = static_cast<std::uint64_t>(params.integer("seed"))},
              params.text("apply"), params.real("time_limit_s"));
        },
}};

}  // namespace
}  // namespace tessera
