#include "reorder/row_chain.hpp"

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>

#include "formats/base/parallel.hpp"
#include "formats/base/scratch_pool.hpp"
#include "reorder/open_columns.hpp"
#include "reorder/row_groups.hpp"
#include "reorder/row_pattern.hpp"

namespace tessera {
namespace {

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

/// One chain over the rows of a stretch.
class Chain {
 public:
  Chain(const RowPattern& pattern, const RowGroups& groups, const ChainRule& rule)
      : pattern_(pattern),
        groups_(groups),
        rule_(rule),
        open_(pattern),
        scores_(groups.size()),
        seen_(pattern.cols, kNever) {}

  /// Writes the rows in order. Calls stops_at(rows written) regularly.
  template <class StopsAt>
  void write(std::span<std::int32_t> order, StopsAt stops_at) {
    auto out = order.begin();
    std::int32_t next = 0;  // start of the search in base order
    std::int64_t window = -1;
    for (std::int32_t placed = 0; placed < groups_.size(); ++placed) {
      if (placed % kAskEvery == 0 && stops_at(out - order.begin())) break;
      std::int32_t group = scores_.best([&](std::int32_t candidate) { return worth(candidate); });
      if (group < 0) {
        while (scores_.is_placed(next)) ++next;
        group = next;
      }
      out = std::ranges::copy(groups_.of(group), out).out;
      const std::int64_t last_window = (out - order.begin() - 1) / rule_.window_rows;
      if (std::exchange(window, last_window) != last_window) scores_.clear();
      scores_.place(group);
      offer(group, window);
      open_.take_out(group);
    }
    for (std::int32_t group = 0; out != order.end(); ++group)
      if (!scores_.is_placed(group)) out = std::ranges::copy(groups_.of(group), out).out;
  }

 private:
  static constexpr std::int32_t kAskEvery = 1024;
  static constexpr std::int64_t kNever = -1;

  /// Counts the columns of a group that are new to the window for the other groups that hold them.
  void offer(std::int32_t group, std::int64_t window) {
    constexpr std::int64_t kLongRow = 256, kLeast = 4;
    const std::int64_t length = std::max<std::int64_t>(1, pattern_.row_length(group));
    const auto most = static_cast<std::int32_t>(std::clamp(
        rule_.candidates * kLongRow / length, std::min<std::int64_t>(kLeast, rule_.candidates),
        std::int64_t{rule_.candidates}));
    for (std::int64_t k = pattern_.row_offsets[group]; k < pattern_.row_offsets[group + 1]; ++k) {
      if (std::exchange(seen_[pattern_.col_indices[k]], window) == window) continue;
      open_.visit_nearest(k, most, [&](std::int32_t other) { scores_.count(other); });
    }
  }

  std::int64_t worth(std::int32_t group) const {
    if (rule_.common_weight == 0) return scores_.of(group);
    return rule_.common_weight * scores_.of(group) - pattern_.row_length(group);
  }

  const RowPattern& pattern_;
  const RowGroups& groups_;
  const ChainRule& rule_;
  OpenColumns open_;
  Scores scores_;
  std::vector<std::int64_t> seen_;  // [columns] the last window that held it
};

/// The starts of stretches with similar numbers of nonzeros, and the end; a stretch is whole
/// windows.
std::vector<std::int64_t> cut(const CsrMatrix& matrix, const std::vector<std::int32_t>& base,
                              const ChainRule& rule) {
  const std::int64_t stretches =
      rule.stretch_rows > 0 ? std::max<std::int64_t>(1, matrix.rows / rule.stretch_rows) : 1;
  std::vector<std::int64_t> cuts{0};
  std::int64_t before = 0;  // nonzeros plus rows
  const std::int64_t all = matrix.nnz() + matrix.rows;
  for (std::int64_t rank = 0; rank < matrix.rows; ++rank) {
    if (rank % rule.window_rows == 0 && rank > cuts.back() &&
        before >= all * std::ssize(cuts) / stretches)
      cuts.push_back(rank);
    before += matrix.row_length(base[rank]) + 1;
  }
  cuts.push_back(matrix.rows);
  return cuts;
}

}  // namespace

std::vector<std::int32_t> chain_rows(const CsrMatrix& matrix, const std::vector<std::int32_t>& base,
                                     const ChainRule& rule, Watch& watch) {
  const std::vector<std::int64_t> cuts = cut(matrix, base, rule);
  std::vector<std::int32_t> order(base.size());
  ScratchPool<ColumnNumbers> pool;
  std::atomic<std::int64_t> written = 0;  // by all chains
  parallel_for(std::ssize(cuts) - 1, 1, [&](std::int64_t stretch, std::int64_t) {
    const std::int64_t begin = cuts[stretch], size = cuts[stretch + 1] - begin;
    const RowGroups groups =
        group_rows(matrix, std::span(base).subspan(begin, size), rule.merge_identical);
    pool.use([&](ColumnNumbers& numbers) {
      const RowPattern pattern = numbers.number(matrix, groups.firsts());
      std::int64_t before = 0;  // written by this chain
      const auto stops_at = [&](std::int64_t rows) {
        written += rows - std::exchange(before, rows);
        watch.report(static_cast<double>(written) / matrix.rows);
        return watch.stop();
      };
      Chain(pattern, groups, rule).write(std::span(order).subspan(begin, size), stops_at);
    });
  });
  return order;
}

}  // namespace tessera
