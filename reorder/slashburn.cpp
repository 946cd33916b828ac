// SlashBurn (Lim, Kang and Faloutsos, TKDE 2014, algorithm 1), on the pattern of A + A^T: remove
// the k vertices of highest degree, put all components but the largest at the back, and repeat in
// the largest one until it has at most k vertices.
//
// Hubs are in front, by degree, and the components of a round at the back, larger ones nearer the
// middle. Degrees count within the remaining component. Departures: ties go to the lower row, and
// the last component is ordered by degree too. A round takes time linear in the remaining
// component, and there are at most 1 / hub_share rounds; 12 B per row beside the graph.

#include <algorithm>
#include <cmath>
#include <span>

#include "formats/base/registry.hpp"
#include "reorder/adjacency.hpp"

namespace tessera {
namespace {

class SlashBurnSearch {
 public:
  SlashBurnSearch(const Adjacency& graph, std::int64_t hubs)
      : graph_(graph), hubs_(hubs), inside_(graph.size(), true), degree_(graph.size()) {
    for (std::int32_t v = 0; v < graph.size(); ++v) {
      left_.push_back(v);
      degree_[v] = graph.degree(v);
    }
  }

  /// The order of all vertices. When stopped, the remaining vertices go to the front, by degree.
  std::vector<std::int32_t> order(Watch& watch) {
    while (static_cast<std::int64_t>(left_.size()) > hubs_ && !watch.stop()) {
      watch.report(1 - static_cast<double>(left_.size()) / graph_.size());
      slash();
      burn();
    }
    hubs_ = std::ssize(left_);
    slash();
    front_.insert(front_.end(), back_.rbegin(), back_.rend());
    return std::move(front_);
  }

 private:
  /// Moves the k vertices of highest degree to the front.
  void slash() {
    const auto count = std::min<std::int64_t>(hubs_, static_cast<std::int64_t>(left_.size()));
    const auto end = left_.begin() + count;
    std::ranges::partial_sort(left_, end, [&](std::int32_t a, std::int32_t b) {
      return degree_[a] != degree_[b] ? degree_[a] > degree_[b] : a < b;
    });
    for (auto hub = left_.begin(); hub != end; ++hub) leave(*hub);
    front_.insert(front_.end(), left_.begin(), end);
    left_.erase(left_.begin(), end);
    std::ranges::sort(left_);
  }

  /// Moves all components of the remaining vertices but the largest to the back.
  void burn() {
    std::vector<std::int32_t> visited;
    std::vector<std::span<const std::int32_t>> components;
    visited.reserve(left_.size());  // the spans below point into it
    for (const std::int32_t start : left_) {
      if (!inside_[start]) continue;
      const std::size_t first = visited.size();
      visited.push_back(start);
      inside_[start] = false;
      for (std::size_t i = first; i < visited.size(); ++i) {
        for (const std::int32_t next : graph_.of(visited[i])) {
          if (inside_[next]) visited.push_back(next);
          inside_[next] = false;
        }
      }
      components.emplace_back(visited.data() + first, visited.size() - first);
    }
    if (components.empty()) return;
    std::ranges::stable_sort(components, {},
                             [](const auto& component) { return component.size(); });
    left_.assign(components.back().begin(), components.back().end());
    components.pop_back();
    for (const auto& component : components)
      back_.insert(back_.end(), component.rbegin(), component.rend());
    for (const std::int32_t vertex : left_) inside_[vertex] = true;
  }

  void leave(std::int32_t hub) {
    inside_[hub] = false;
    for (const std::int32_t next : graph_.of(hub)) --degree_[next];
  }

  const Adjacency& graph_;
  std::int64_t hubs_;
  std::vector<bool> inside_;          // [vertices] in the remaining component
  std::vector<std::int64_t> degree_;  // [vertices] within the remaining component
  std::vector<std::int32_t> left_;    // the remaining component
  std::vector<std::int32_t> front_;   // the first vertices of the order
  std::vector<std::int32_t> back_;    // the last vertices of the order, from the end
};

class SlashBurn final : public Reordering {
 public:
  SlashBurn(double hub_share, std::string apply, double time_limit_s)
      : hub_share_(hub_share), apply_(std::move(apply)), time_limit_s_(time_limit_s) {}

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(time_limit_s_);
    const Adjacency graph = symmetric_pattern(matrix, "slashburn");
    const auto hubs = static_cast<std::int64_t>(std::ceil(hub_share_ * matrix.rows));
    return on_sides(SlashBurnSearch(graph, std::max<std::int64_t>(hubs, 1)).order(watch), apply_);
  }

 private:
  double hub_share_;
  std::string apply_;
  double time_limit_s_;
};

const Register<Reordering> entry{{
    .name = "slashburn",
    .summary = "SlashBurn on A + A^T: hubs in front, components that they connected at the back",
    .params =
        {{"hub_share", 0.005, "hubs removed per round (k), as a share of the rows", {}, 1e-4, 1},
         apply_to_both_sides(),
         time_limit_param()},
    .make =
        [](const Params& params) {
          return std::make_unique<SlashBurn>(params.real("hub_share"), params.text("apply"),
                                             params.real("time_limit_s"));
        },
}};

}  // namespace
}  // namespace tessera
