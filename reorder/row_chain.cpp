#include "reorder/row_chain.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "formats/base/parallel.hpp"
#include "formats/base/scratch_pool.hpp"
#include "reorder/open_columns.hpp"

namespace tessera {
namespace {

/// Columns in common with the rows that are compared with, of every group that was a candidate.
///
/// The best one is looked for among those with more than a threshold, half of what the last best
/// had; all are looked at again only when none of these is left. So a row with few columns in
/// common waits, however short it is.
class Scores {
 public:
  void resize(std::int32_t groups) { common_.resize(groups, 0); }

  /// False for a group that is taken.
  bool count(std::int32_t group) {
    const std::int32_t score = ++common_[group];
    if (score == 1) candidates_.push_back(group);
    if (score == threshold_ + 1) high_.push_back(group);
    return score > 0;
  }

  void take(std::int32_t group) { common_[group] = kTaken; }
  /// As if it had never been taken.
  void give_back(std::int32_t group) { common_[group] = 0; }
  bool is_taken(std::int32_t group) const { return common_[group] < 0; }

  /// The group that goes before all others; -1 without any.
  template <class GoesBefore>
  std::int32_t best(GoesBefore goes_before) {
    constexpr std::size_t kMany = 32;
    std::int32_t found = best_of(high_, goes_before);
    if (found < 0 && threshold_ > 0) {
      found = best_of(candidates_, goes_before);
      high_ = candidates_;
      threshold_ = 0;
    }
    // Next time those with more than half of its score will do.
    if (found >= 0 && high_.size() > kMany && common_[found] / 2 > threshold_) {
      threshold_ = common_[found] / 2;
      std::erase_if(high_, [&](std::int32_t group) { return common_[group] <= threshold_; });
    }
    return found;
  }

  std::int32_t of(std::int32_t group) const { return common_[group]; }

  void clear() {
    for (const std::int32_t group : candidates_)
      if (!is_taken(group)) common_[group] = 0;
    candidates_.clear();
    high_.clear();
    threshold_ = 0;
  }

 private:
  template <class GoesBefore>
  std::int32_t best_of(const std::vector<std::int32_t>& among, GoesBefore goes_before) const {
    std::int32_t best = -1;
    for (const std::int32_t group : among)
      if (!is_taken(group) && (best < 0 || goes_before(group, best))) best = group;
    return best;
  }

  static constexpr std::int32_t kTaken = std::numeric_limits<std::int32_t>::min();
  std::vector<std::int32_t> common_;      // [groups] below zero where taken
  std::vector<std::int32_t> candidates_;  // those counted
  std::vector<std::int32_t> high_;        // of these the ones above the threshold
  std::int32_t threshold_ = 0;
};

/// What a thread needs to lengthen a chain.
struct Scratch {
  Scores scores;
  std::vector<std::int32_t> seen;  // [cols] the last window that held the column
  std::int32_t window = 0;         // number of the current one, counted over all chains it grew

  void resize(std::int32_t groups, std::int32_t cols) {
    scores.resize(groups);
    seen.resize(cols, 0);
  }
};

struct Chain {
  std::int32_t next;                      // group from which on the base order is searched
  std::int32_t searched = 0;              // groups searched there
  std::vector<std::int32_t> groups = {};  // in their order
  std::int64_t rows = 0;                  // of these
  std::size_t window_begin = 0;           // first of them that the next one is compared with
  std::vector<std::int32_t> taken = {};   // in this round
};

class Chaining {
 public:
  Chaining(const CsrMatrix& matrix, const RowGroups& groups, const ChainRule& rule)
      : matrix_(matrix),
        groups_(groups),
        rule_(rule),
        open_(matrix, groups),
        placed_(groups.size(), false),
        left_(groups.size()) {
    constexpr std::int32_t kGroupsPerChain = 16384, kMostChains = 16;
    const std::int32_t chains = rule.chains > 0
                                    ? std::min(rule.chains, std::max(1, groups.size()))
                                    : std::clamp(groups.size() / kGroupsPerChain, 1, kMostChains);
    for (std::int64_t c = 0; c < chains; ++c)
      chains_.push_back({.next = static_cast<std::int32_t>(c * groups.size() / chains)});
  }

  std::vector<std::int32_t> rows(Watch& watch) {
    while (left_ > 0 && !watch.stop()) {
      round();
      watch.tell(1 - static_cast<double>(left_) / groups_.size());
    }
    return collect();
  }

 private:
  void round() {
    // Short enough to let few rows be taken twice, long enough to be worth starting threads.
    constexpr std::int32_t kMostGroups = 256, kLeastGroups = 8;
    const auto chains = static_cast<std::int32_t>(chains_.size());
    const std::int32_t quota = std::clamp(left_ / (4 * chains), kLeastGroups, kMostGroups);
    parallel_for(chains, 1, [&](std::int64_t begin, std::int64_t) {
      pool_.use([&](Scratch& scratch) { lengthen(chains_[begin], quota, scratch); });
    });
    settle();
  }

  void lengthen(Chain& chain, std::int32_t quota, Scratch& scratch) {
    scratch.resize(groups_.size(), matrix_.cols);
    Scores& scores = scratch.scores;
    ++scratch.window;
    for (std::size_t i = chain.window_begin; i < chain.groups.size(); ++i)
      offer<true>(chain.groups[i], scratch);
    std::int64_t rows = chain.rows;
    for (std::int32_t i = 0; i < quota; ++i) {
      std::int32_t group =
          scores.best([&](std::int32_t a, std::int32_t b) { return goes_before(a, b, scores); });
      if (group < 0) group = next_in_base(chain, scores);
      if (group < 0) break;
      scores.take(group);
      chain.taken.push_back(group);
      const std::int64_t window = last_window(rows);
      rows += std::ssize(groups_.of(group));
      if (last_window(rows) != window) {
        scores.clear();
        ++scratch.window;
      }
      offer<false>(group, scratch);
    }
    scores.clear();
    for (const std::int32_t group : chain.taken) scores.give_back(group);
  }

  /// The window of the last of so many rows; -1 without any.
  std::int64_t last_window(std::int64_t rows) const {
    return rows == 0 ? -1 : (rows - 1) / rule_.window_rows;
  }

  /// Counts the columns of a group that are new to the window for those that hold them as well. A
  /// group of an earlier round is no longer in the lists, and so may be those it leads to.
  template <bool kEarlierRound>
  void offer(std::int32_t group, Scratch& scratch) {
    const auto cols = matrix_.row_cols(groups_.first(group));
    for (std::int32_t i = 0; i < std::ssize(cols); ++i) {
      if (std::exchange(scratch.seen[cols[i]], scratch.window) == scratch.window) continue;
      open_.visit_nearest(group, i, cols[i], rule_.candidates, [&](std::int32_t other) {
        if (kEarlierRound && placed_[other]) return false;
        return scratch.scores.count(other);
      });
    }
  }

  bool goes_before(std::int32_t a, std::int32_t b, const Scores& scores) const {
    const std::int64_t worth_a = worth(a, scores), worth_b = worth(b, scores);
    return worth_a != worth_b ? worth_a > worth_b : a < b;
  }

  std::int64_t worth(std::int32_t group, const Scores& scores) const {
    if (rule_.common_weight == 0) return scores.of(group);
    return rule_.common_weight * scores.of(group) - matrix_.row_length(groups_.first(group));
  }

  std::int32_t next_in_base(Chain& chain, const Scores& scores) const {
    for (; chain.searched < groups_.size(); ++chain.searched) {
      if (!placed_[chain.next] && !scores.is_taken(chain.next)) return chain.next;
      chain.next = chain.next + 1 == groups_.size() ? 0 : chain.next + 1;
    }
    return -1;
  }

  /// Places what the chains have taken, as far as nobody before them has it.
  void settle() {
    std::vector<std::int32_t> now;
    for (Chain& chain : chains_) {
      for (const std::int32_t group : chain.taken) {
        if (placed_[group]) continue;
        placed_[group] = true;
        now.push_back(group);
        const std::int64_t window = last_window(chain.rows);
        chain.rows += std::ssize(groups_.of(group));
        if (last_window(chain.rows) != window) chain.window_begin = chain.groups.size();
        chain.groups.push_back(group);
      }
      chain.taken.clear();
    }
    left_ -= static_cast<std::int32_t>(now.size());
    take_out(now);
  }

  /// By ranges of columns, so that nobody else is at work in a column.
  void take_out(const std::vector<std::int32_t>& groups) {
    const std::int64_t grain =
        std::max<std::int64_t>(1, (matrix_.cols + num_threads() - 1) / num_threads());
    parallel_for(matrix_.cols, grain, [&](std::int64_t begin, std::int64_t end) {
      for (const std::int32_t group : groups) {
        const auto cols = matrix_.row_cols(groups_.first(group));
        auto i = static_cast<std::int32_t>(std::ranges::lower_bound(cols, begin) - cols.begin());
        for (; i < std::ssize(cols) && cols[i] < end; ++i) open_.take_out(group, i, cols[i]);
      }
    });
  }

  /// One chain after the other, each in whole windows; then what does not fill one, and what is not
  /// placed.
  std::vector<std::int32_t> collect() const {
    std::vector<std::int32_t> rows, tail;
    rows.reserve(groups_.rows.size());
    for (const Chain& chain : chains_) {
      std::int64_t whole = chain.rows - chain.rows % rule_.window_rows;
      for (const std::int32_t group : chain.groups)
        for (const std::int32_t row : groups_.of(group)) (whole-- > 0 ? rows : tail).push_back(row);
    }
    rows.insert(rows.end(), tail.begin(), tail.end());
    for (std::int32_t group = 0; group < groups_.size(); ++group)
      if (!placed_[group])
        rows.insert(rows.end(), groups_.of(group).begin(), groups_.of(group).end());
    return rows;
  }

  const CsrMatrix& matrix_;
  const RowGroups& groups_;
  const ChainRule rule_;
  OpenColumns open_;
  std::vector<char> placed_;  // [groups]
  std::int32_t left_;         // groups not placed
  std::vector<Chain> chains_;
  ScratchPool<Scratch> pool_;
};

}  // namespace

std::vector<std::int32_t> chain_rows(const CsrMatrix& matrix, const RowGroups& groups,
                                     const ChainRule& rule, Watch& watch) {
  return Chaining(matrix, groups, rule).rows(watch);
}

}  // namespace tessera
