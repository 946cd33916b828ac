// Sums of edge weights by community, for one vertex at a time.
//
// A hash table holds the few communities around the vertex. It stays in the L1 cache, which an
// array over all communities would not, and each thread can have its own.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tessera {

/// An edge to a community, or a community and the weight of the edges to it. Weights saturate at
/// 2^32 - 1.
struct WeightedEdge {
  std::int32_t to = 0;
  std::uint32_t weight = 0;
};

/// Edges that wait to be read once, in their order. An edge of weight one takes as many bytes as
/// `width`, the width of numbers of communities; another edge takes four more.
class WaitingEdges {
 public:
  /// The bytes of a number below `communities` and of a bit beside it.
  static int width_of(std::int32_t communities) {
    return (static_cast<int>(std::bit_width(static_cast<std::uint32_t>(communities))) + 8) / 8;
  }

  void assign(std::span<const WeightedEdge> edges, int width) {
    const auto heavy = static_cast<std::size_t>(std::ranges::count_if(edges, is_heavy));
    clear();
    bytes_.reserve(edges.size() * static_cast<std::size_t>(width) + heavy * kWeightBytes);
    for (const WeightedEdge& edge : edges) {
      append(2 * static_cast<std::uint32_t>(edge.to) + (is_heavy(edge) ? 1 : 0), width);
      if (is_heavy(edge)) append(edge.weight, kWeightBytes);
    }
  }
  void clear() { std::vector<std::uint8_t>().swap(bytes_); }

  /// The number of edges, or more.
  std::int64_t bound(int width) const { return std::ssize(bytes_) / width; }

  template <class Visit>
  void for_each(int width, Visit visit) const {
    for (const std::uint8_t* at = bytes_.data(); at != bytes_.data() + bytes_.size();) {
      const std::uint32_t number = take(at, width);
      const std::uint32_t weight = number % 2 == 0 ? 1 : take(at, kWeightBytes);
      visit(WeightedEdge{static_cast<std::int32_t>(number / 2), weight});
    }
  }

 private:
  static constexpr int kWeightBytes = sizeof(std::uint32_t);

  static bool is_heavy(const WeightedEdge& edge) { return edge.weight != 1; }

  void append(std::uint32_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<std::uint8_t>(number >> 8 * i));
  }
  static std::uint32_t take(const std::uint8_t*& from, int bytes) {
    std::uint32_t number = 0;
    for (int i = 0; i < bytes; ++i) number |= std::uint32_t{*from++} << 8 * i;
    return number;
  }

  std::vector<std::uint8_t> bytes_;
};

class CommunityWeights {
 public:
  /// Clears the sums and makes room for `most` different communities.
  void start(std::int64_t most) {
    for (const std::uint32_t slot : used_) slots_[slot] = kEmpty;
    used_.clear();
    edges_.clear();
    is_few_ = most <= kFew;
    if (is_few_) return;
    const std::uint64_t wanted = std::bit_ceil(static_cast<std::uint64_t>(2 * most));
    if (wanted > slots_.size()) slots_.assign(wanted, kEmpty);
    shift_ = 64 - std::countr_zero(wanted);
    mask_ = wanted - 1;
  }

  void add(std::int32_t community, std::uint32_t weight) {
    const std::size_t place = is_few_ ? place_by_search(community) : place_by_hash(community);
    if (place == edges_.size()) {
      edges_.push_back({community, weight});
    } else {
      std::uint32_t& sum = edges_[place].weight;
      sum += std::min(weight, std::numeric_limits<std::uint32_t>::max() - sum);
    }
  }

  /// The sums, in the order in which the communities were first added.
  std::span<const WeightedEdge> edges() const { return edges_; }

 private:
  static constexpr std::uint32_t kEmpty = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::int64_t kFew = 12;  // up to this number a linear search is faster

  /// The index of a community in edges_, or the end.
  std::size_t place_by_search(std::int32_t community) const {
    std::size_t place = 0;
    while (place < edges_.size() && edges_[place].to != community) ++place;
    return place;
  }

  /// The index of a community in edges_; a new community gets the end.
  std::size_t place_by_hash(std::int32_t community) {
    std::uint64_t slot = (static_cast<std::uint64_t>(community) * 0x9e3779b97f4a7c15u) >> shift_;
    while (slots_[slot] != kEmpty && edges_[slots_[slot]].to != community)
      slot = (slot + 1) & mask_;
    if (slots_[slot] == kEmpty) {
      slots_[slot] = static_cast<std::uint32_t>(edges_.size());
      used_.push_back(static_cast<std::uint32_t>(slot));
    }
    return slots_[slot];
  }

  std::vector<std::uint32_t> slots_;  // [power of two] into edges_
  std::vector<std::uint32_t> used_;   // slots that are not empty
  std::vector<WeightedEdge> edges_;
  bool is_few_ = true;
  int shift_ = 0;
  std::uint64_t mask_ = 0;
};

}  // namespace tessera
