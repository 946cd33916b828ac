// The rows that have most columns in common with the row window being filled.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "reorder/open_columns.hpp"
#include "reorder/row_chain.hpp"
#include "reorder/row_pattern.hpp"

namespace tessera {

/// The numbers of columns that candidate groups have in common with the rows compared with.
///
/// The best group is searched among those with more than a threshold, half of the last best; the
/// others are searched only when none of these is left. So a row with few common columns waits,
/// even when it is short.
class Scores {
 public:
  explicit Scores(std::int32_t groups) : common_(groups, 0) {}

  void count(std::int32_t group) {
    const std::int32_t score = ++common_[group];
    if (score == 1) candidates_.push_back(group);
    if (score == threshold_ + 1) high_.push_back(group);
  }

  void place(std::int32_t group) { common_[group] = kPlaced; }
  void take_back(std::int32_t group) { common_[group] = 0; }
  bool is_placed(std::int32_t group) const { return common_[group] == kPlaced; }
  std::int32_t of(std::int32_t group) const { return common_[group]; }

  /// The group of largest worth, the first of several; -1 when there is none.
  template <class Worth>
  std::int32_t best(Worth worth) {
    constexpr std::size_t kMany = 32;
    std::int32_t found = best_of(high_, worth);
    if (found < 0 && threshold_ > 0) {
      found = best_of(candidates_, worth);
      high_ = candidates_;
      threshold_ = 0;
    }
    if (found >= 0 && high_.size() > kMany && common_[found] / 2 > threshold_) {
      threshold_ = common_[found] / 2;
      std::erase_if(high_, [&](std::int32_t group) { return common_[group] <= threshold_; });
    }
    return found;
  }

  void clear() {
    for (const std::int32_t group : candidates_)
      if (!is_placed(group)) common_[group] = 0;
    candidates_.clear();
    high_.clear();
    threshold_ = 0;
  }

 private:
  template <class Worth>
  std::int32_t best_of(const std::vector<std::int32_t>& among, Worth worth) const {
    std::int32_t best = -1;
    std::int64_t most = 0;
    for (const std::int32_t group : among) {
      if (is_placed(group)) continue;
      const std::int64_t own = worth(group);
      if (best >= 0 && (own < most || (own == most && group > best))) continue;
      best = group;
      most = own;
    }
    return best;
  }

  static constexpr std::int32_t kPlaced = -1;
  std::vector<std::int32_t> common_;      // [groups]
  std::vector<std::int32_t> candidates_;  // groups with a count
  std::vector<std::int32_t> high_;        // candidates above the threshold
  std::int32_t threshold_ = 0;
};

/// The candidates of one window after another, among the rows (or groups of equal rows) of a
/// pattern.
class Candidates {
 public:
  Candidates(const RowPattern& pattern, OpenColumns& open, const ChainRule& rule)
      : pattern_(pattern),
        open_(open),
        rule_(rule),
        scores_(pattern.rows),
        seen_(pattern.cols, 0) {}

  /// The open row of largest worth, the first of several; -1 when none shares a column.
  std::int32_t best() {
    return scores_.best([&](std::int32_t row) { return worth(row); });
  }

  void begin_window() {
    scores_.clear();
    ++window_;
  }

  /// Placed rows are no candidates until they are taken back.
  void place(std::int32_t row) { scores_.place(row); }
  void take_back(std::int32_t row) { scores_.take_back(row); }
  bool is_placed(std::int32_t row) const { return scores_.is_placed(row); }

  /// Counts the columns of a row that are new to the window for the open rows that hold them.
  void offer(std::int32_t row) {
    constexpr std::int64_t kLongRow = 256, kLeast = 4;
    const std::int64_t length = std::max<std::int64_t>(1, pattern_.row_length(row));
    const auto most = static_cast<std::int32_t>(std::clamp(
        rule_.candidates * kLongRow / length, std::min<std::int64_t>(kLeast, rule_.candidates),
        std::int64_t{rule_.candidates}));
    for (std::int64_t k = pattern_.row_offsets[row]; k < pattern_.row_offsets[row + 1]; ++k) {
      if (std::exchange(seen_[pattern_.col_indices[k]], window_) == window_) continue;
      open_.visit_nearest(k, most, [&](std::int32_t other) {
        if (scores_.is_placed(other)) return false;
        scores_.count(other);
        return true;
      });
    }
  }

 private:
  std::int64_t worth(std::int32_t row) const {
    if (rule_.common_weight == 0) return scores_.of(row);
    return rule_.common_weight * scores_.of(row) - pattern_.row_length(row);
  }

  const RowPattern& pattern_;
  OpenColumns& open_;
  const ChainRule& rule_;
  Scores scores_;
  std::vector<std::int32_t> seen_;  // [columns] the last window that held it
  std::int32_t window_ = 1;
};

}  // namespace tessera
