// A set-associative cache of lines with four sectors and LRU replacement.
//
// A line is identified by its number; the caller maps it to a set, since the caches of a GPU hash
// addresses. A line stores when its latest data arrives, so that requests until then wait for the
// same fetch.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <iterator>
#include <vector>

namespace tessera::simulator {

class SectoredCache {
 public:
  static constexpr int kWays = 16;
  static constexpr std::uint32_t kNoLine = 0xffffffff;

  struct Line {
    std::uint32_t asked = 0;  // the owner's name of the request while the line is fetched
    float ready = 0;          // when its latest sectors arrive
    std::uint8_t valid = 0;   // sectors, as bits
    std::uint8_t dirty = 0;   // sectors, as bits
    std::uint16_t epoch = 0;  // calls of forget() before the line was filled
  };

  explicit SectoredCache(std::int64_t sets)
      : sets_(static_cast<std::size_t>(sets)), lines_(sets_.size() * kWays) {}

  std::int64_t sets() const { return std::ssize(sets_); }
  Line& line(std::int64_t place) { return lines_[static_cast<std::size_t>(place)]; }
  std::uint32_t tag(std::int64_t place) const {
    return sets_[static_cast<std::size_t>(place / kWays)].tags[place % kWays];
  }

  /// Has the processor fetch what find() reads of the set. The caches of a whole GPU do not fit
  /// into those of a core.
  void prefetch_set(std::int64_t set) const {
    __builtin_prefetch(&sets_[static_cast<std::size_t>(set)].tags);
    __builtin_prefetch(&sets_[static_cast<std::size_t>(set)].used);
  }
  /// Has the processor fetch what line() reads, if the line is present. Does not count as a use.
  void prefetch_line(std::int64_t set, std::uint32_t line) const {
    const int way = way_of(sets_[static_cast<std::size_t>(set)], line);
    if (way < kWays) __builtin_prefetch(&lines_[static_cast<std::size_t>(set * kWays + way)]);
  }

  /// The index of a line, for line() and tag(); -1 when it is absent. Counts as a use.
  std::int64_t find(std::int64_t set, std::uint32_t line) {
    Set& ways = sets_[static_cast<std::size_t>(set)];
    const int way = way_of(ways, line);
    if (way == kWays) return -1;
    ways.used[way] = ++clock_;
    const std::int64_t place = set * kWays + way;
    Line& found = lines_[static_cast<std::size_t>(place)];
    if (found.epoch != epoch_) found = {.epoch = epoch_};
    return place;
  }

  /// Makes the sectors of all lines invalid, of which none may be dirty.
  void forget() {
    if (++epoch_ != 0) return;
    for (Line& line : lines_) line = {};
  }

  /// Evicts the least recently used line of the set and inserts `line` without sectors. Returns its
  /// index; `out` and `out_line` are the evicted line, kNoLine when there was none.
  std::int64_t replace(std::int64_t set, std::uint32_t line, std::uint32_t& out, Line& out_line) {
    Set& ways = sets_[static_cast<std::size_t>(set)];
    int victim = way_of(ways, kNoLine);
    if (victim == kWays)
      victim = static_cast<int>(std::ranges::min_element(ways.used) - ways.used.begin());
    const std::int64_t place = set * kWays + victim;
    out = ways.tags[victim];
    out_line = lines_[static_cast<std::size_t>(place)];
    ways.tags[victim] = line;
    ways.used[victim] = ++clock_;
    lines_[static_cast<std::size_t>(place)] = {.epoch = epoch_};
    return place;
  }

 private:
  struct alignas(64) Set {
    Set() { tags.fill(kNoLine); }
    std::array<std::uint32_t, kWays> tags;
    std::array<std::uint32_t, kWays> used = {};  // numbers of the latest accesses
  };

  /// The first way with this tag, kWays where there is none.
  static int way_of(const Set& set, std::uint32_t tag) {
    // All ways are compared without a branch, which compilers turn into a few vector comparisons.
    std::array<std::uint8_t, kWays> equal;
    for (int way = 0; way < kWays; ++way) equal[way] = set.tags[way] == tag ? 0xff : 0;
    const auto [low, high] = std::bit_cast<std::array<std::uint64_t, 2>>(equal);
    return low != 0 ? std::countr_zero(low) / 8 : 8 + std::countr_zero(high) / 8;
  }

  std::uint32_t clock_ = 0;
  std::uint16_t epoch_ = 0;
  std::vector<Set> sets_;
  std::vector<Line> lines_;  // [sets * kWays]
};

}  // namespace tessera::simulator
