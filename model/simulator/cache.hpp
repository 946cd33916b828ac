// A set-associative cache of lines with four sectors and LRU replacement.
//
// A line is identified by its number; the caller maps it to a set, since the caches of a GPU hash
// addresses. A line stores when its latest data arrives, so that requests until then wait for the
// same fetch.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace tessera::simulator {

class SectoredCache {
 public:
  static constexpr int kWays = 16;
  static constexpr std::uint32_t kNoLine = 0xffffffff;

  struct Line {
    std::uint32_t used = 0;   // number of the latest access
    std::uint32_t asked = 0;  // the owner's name of the request while the line is fetched
    float ready = 0;          // when its latest sectors arrive
    std::uint8_t valid = 0;   // sectors, as bits
    std::uint8_t dirty = 0;   // sectors, as bits
  };

  explicit SectoredCache(std::int64_t sets)
      : sets_(sets), tags_(static_cast<std::size_t>(sets)), lines_(tags_.size() * kWays) {
    for (auto& tags : tags_) tags.fill(kNoLine);
  }

  std::int64_t sets() const { return sets_; }
  Line& line(std::int64_t place) { return lines_[static_cast<std::size_t>(place)]; }
  std::uint32_t tag(std::int64_t place) const {
    return tags_[static_cast<std::size_t>(place / kWays)][place % kWays];
  }

  /// The index of a line, for line() and tag(); -1 when it is absent. Counts as a use.
  std::int64_t find(std::int64_t set, std::uint32_t line) {
    const auto& tags = tags_[static_cast<std::size_t>(set)];
    // All ways are compared without a branch, which compilers turn into a few vector comparisons.
    std::uint32_t match = 0;
    for (int way = 0; way < kWays; ++way) match |= std::uint32_t{tags[way] == line} << way;
    if (match == 0) return -1;
    const std::int64_t place = set * kWays + std::countr_zero(match);
    lines_[static_cast<std::size_t>(place)].used = ++clock_;
    return place;
  }

  /// Evicts the least recently used line of the set and inserts `line` without sectors. Returns its
  /// index; `out` and `out_line` are the evicted line, kNoLine when there was none.
  std::int64_t replace(std::int64_t set, std::uint32_t line, std::uint32_t& out, Line& out_line) {
    auto& tags = tags_[static_cast<std::size_t>(set)];
    int victim = 0;
    for (int way = 0; way < kWays; ++way) {
      if (tags[way] == kNoLine) {
        victim = way;
        break;
      }
      if (lines_[static_cast<std::size_t>(set * kWays + way)].used <
          lines_[static_cast<std::size_t>(set * kWays + victim)].used)
        victim = way;
    }
    const std::int64_t place = set * kWays + victim;
    out = tags[victim];
    out_line = lines_[static_cast<std::size_t>(place)];
    tags[victim] = line;
    lines_[static_cast<std::size_t>(place)] = {.used = ++clock_};
    return place;
  }

 private:
  std::int64_t sets_;
  std::uint32_t clock_ = 0;
  std::vector<std::array<std::uint32_t, kWays>> tags_;  // [sets]
  std::vector<Line> lines_;                             // [sets * kWays]
};

}  // namespace tessera::simulator
