// The vertices that an order may take next, by priority, for King's and Sloan's algorithms.
//
// A heap without decrease-key: a vertex whose priority rises is pushed again; its older entries are
// dropped when they reach the top. 16 B per push.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

namespace tessera {

class Front {
 public:
  explicit Front(std::int32_t vertices) : rank_(vertices, -1), taken_(vertices, false) {}

  /// True when the vertex was pushed, even if it was taken since.
  bool reached(std::int32_t vertex) const { return rank_[vertex] >= 0; }
  /// True when the vertex was pushed and not taken.
  bool waiting(std::int32_t vertex) const { return reached(vertex) && !taken_[vertex]; }

  /// Adds the vertex, or raises its priority; `priority` must not be below its last one.
  void push(std::int32_t vertex, std::int64_t priority) {
    if (!reached(vertex)) {
      rank_[vertex] = static_cast<std::int32_t>(vertex_of_.size());
      vertex_of_.push_back(vertex);
    }
    heap_.push({priority, rank_[vertex]});
  }

  /// Takes the vertex of the highest priority, among equal ones the first that was reached; -1 when
  /// none waits.
  std::int32_t take() {
    while (!heap_.empty()) {
      const std::int32_t vertex = vertex_of_[heap_.top().rank];
      heap_.pop();
      if (taken_[vertex]) continue;
      taken_[vertex] = true;
      return vertex;
    }
    return -1;
  }

 private:
  struct Waiting {
    std::int64_t priority;
    std::int32_t rank;

    bool operator<(const Waiting& other) const {
      return priority != other.priority ? priority < other.priority : rank > other.rank;
    }
  };

  std::vector<std::int32_t> rank_;       // [vertices] order of being reached, or -1
  std::vector<bool> taken_;              // [vertices]
  std::vector<std::int32_t> vertex_of_;  // [reached vertices] by rank
  std::priority_queue<Waiting> heap_;
};

}  // namespace tessera
