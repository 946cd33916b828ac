// The vertices an order may take next, by priority: what King's and Sloan's algorithms share.
//
// A heap without decrease: a vertex whose priority rises is pushed again, and what lies deeper of
// it is stale and dropped when it comes up. 16 B per push.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

namespace tessera {

class Front {
 public:
  explicit Front(std::int32_t vertices) : rank_(vertices, -1), taken_(vertices, false) {}

  /// Whether the vertex was ever pushed.
  bool reached(std::int32_t vertex) const { return rank_[vertex] >= 0; }
  /// Whether the vertex can still be taken.
  bool waiting(std::int32_t vertex) const { return reached(vertex) && !taken_[vertex]; }

  /// The vertex waits at this priority, which must not be below its last one.
  void push(std::int32_t vertex, std::int64_t priority) {
    if (!reached(vertex)) {
      rank_[vertex] = static_cast<std::int32_t>(vertex_of_.size());
      vertex_of_.push_back(vertex);
    }
    heap_.push({priority, rank_[vertex]});
  }

  /// Takes the vertex of the highest priority, of equal ones the first that was reached; -1 when
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

  std::vector<std::int32_t> rank_;       // [vertices]; when it was first reached, or -1
  std::vector<bool> taken_;              // [vertices]
  std::vector<std::int32_t> vertex_of_;  // [reached]; by rank
  std::priority_queue<Waiting> heap_;
};

}  // namespace tessera
