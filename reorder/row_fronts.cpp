#include "reorder/row_fronts.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "formats/base/parallel.hpp"
#include "formats/base/scratch_pool.hpp"
#include "reorder/candidates.hpp"
#include "reorder/open_columns.hpp"
#include "reorder/row_groups.hpp"
#include "reorder/row_pattern.hpp"

namespace tessera {
namespace {

/// How far rows that are placed one after the other fill their windows.
struct Fill {
  std::int64_t rows = 0;
  std::int64_t window = -1;        // that the last row lies in
  std::int64_t window_groups = 0;  // the number of the last groups that reach into that window

  /// Counts a group's rows; true when they reach into another window.
  bool add(std::int64_t group_rows, std::int32_t window_rows) {
    rows += group_rows;
    const std::int64_t last = (rows - 1) / window_rows;
    const bool is_next = std::exchange(window, last) != last;
    window_groups = is_next ? 1 : window_groups + 1;
    return is_next;
  }
};

struct Front {
  std::uint64_t index = 0;
  std::vector<std::int32_t> groups;  // placed, in order
  Fill fill;                         // by those groups
  std::int32_t next = 0, end = 0;    // groups of the base order to go on with where none is similar
  std::vector<std::int32_t> chosen;  // in this round
  std::int64_t kept = 0;             // of those, once the round is over
  std::int64_t most = 0;             // to be chosen in the next round
  bool idle = true;                  // found nothing to choose

  std::span<const std::int32_t> last_window() const {
    return std::span(groups).last(static_cast<std::size_t>(fill.window_groups));
  }
};

/// The fronts of one stretch.
class Fronts {
 public:
  Fronts(const RowPattern& pattern, const RowGroups& groups, const ChainRule& rule)
      : pattern_(pattern),
        groups_(groups),
        rule_(rule),
        open_(pattern),
        claims_(std::size_t(groups.size()), kNobody),
        waiting_(std::size_t(groups.size())),
        open_groups_(groups.size()) {
    // Many fronts keep many threads busy, and leave more windows at their borders that fit less
    // well.
    const auto size = std::int64_t{groups.size()};
    const std::int64_t few = std::clamp<std::int64_t>(size / (kLeastGroups / 2), 1, 16);
    const std::int64_t wanted = std::max(
        size / kLeastGroups,
        std::min(std::ssize(pattern.col_indices) / kLeastEntries, size / (kLeastGroups / 4)));
    const std::int64_t count = std::clamp(wanted, few, kMostFronts);
    std::iota(waiting_.begin(), waiting_.end(), 0);
    // Many windows in a round cost fewer rounds, and more rows that several fronts choose.
    windows_ = std::clamp<std::int64_t>(groups.size() / (rule.window_rows * count * kRounds), 1,
                                        kMostWindows);
    for (std::int64_t i = 0; i < count; ++i)
      fronts_.emplace_back().index = static_cast<std::uint64_t>(i);
    for (Front& front : fronts_) front.most = (windows_ + 1) * rule.window_rows;
  }

  /// Writes the rows in order. Calls stops_at(rows placed) after each round.
  template <class StopsAt>
  void write(std::span<std::int32_t> order, StopsAt stops_at) {
    std::int64_t placed = 0;
    while (open_groups_ > 0 && !stops_at(placed)) {
      const bool closing = open_groups_ < 2 * rule_.window_rows * std::ssize(fronts_);
      const std::vector<Front*> active = closing ? last_fronts() : working_fronts();
      parallel_for(std::ssize(active), 1, [&](std::int64_t i, std::int64_t) {
        pool_.use([&](Scratch& scratch) { choose(*active[i], closing, scratch); });
      });
      parallel_for(std::ssize(active), 8, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) keep(*active[i]);
      });
      ++round_;
      placed = 0;
      for (const Front* front : active) open_groups_ -= front->kept;
      for (const Front& front : fronts_) placed += front.fill.rows;
    }
    write_out(order);
  }

 private:
  static constexpr std::int64_t kMostFronts = 64;
  static constexpr std::int64_t kLeastGroups = 1024;  // of a front; fewer of the first 16, and of
  static constexpr std::int64_t kLeastEntries = 1 << 16;  // those that have so many nonzeros
  static constexpr std::int64_t kRounds = 32, kMostWindows = 16;
  static constexpr std::uint64_t kNobody = std::numeric_limits<std::uint64_t>::max();
  using Scratch = std::unique_ptr<Candidates>;

  /// A later round has a smaller claim, so that claims of earlier ones need not be taken back.
  std::uint64_t claim_of(const Front& front) const {
    return kNobody / kMostFronts - (round_ + 1) * kMostFronts + front.index;
  }

  std::int64_t size_of(std::int32_t group) const { return std::ssize(groups_.of(group)); }

  /// Chooses groups until windows_ windows are complete and the next one has its first row, which
  /// is compared with the window before; when `closing`, until a window is complete.
  void choose(Front& front, bool closing, Scratch& scratch) {
    if (!scratch) scratch = std::make_unique<Candidates>(pattern_, open_, rule_);
    Candidates& candidates = *scratch;
    candidates.begin_window();
    for (const std::int32_t group : front.last_window()) candidates.offer(group);
    front.chosen.clear();
    Fill fill = front.fill;
    const std::uint64_t claim = claim_of(front);
    for (std::int64_t windows = 0; windows < windows_ && std::ssize(front.chosen) < front.most;) {
      std::int32_t group = candidates.best();
      if (group < 0) {
        for (group = front.next; group < front.end; ++group)
          if (open_.is_open(group) && !candidates.is_placed(group)) break;
        if (group >= front.end) break;
        front.next = group;
      }
      front.chosen.push_back(group);
      claim_group(group, claim);
      const bool is_first = fill.rows == 0;
      const bool is_next = fill.add(size_of(group), rule_.window_rows);
      if (is_next) candidates.begin_window();
      candidates.place(group);
      if (closing && fill.rows % rule_.window_rows == 0) break;
      if (is_next && !is_first) ++windows;
      if (windows < windows_) candidates.offer(group);
    }
    for (const std::int32_t group : front.chosen) candidates.take_back(group);
    candidates.begin_window();
    front.idle = front.chosen.empty();
  }

  void claim_group(std::int32_t group, std::uint64_t claim) {
    const std::atomic_ref least(claims_[group]);
    std::uint64_t before = least.load(std::memory_order_relaxed);
    while (claim < before &&
           !least.compare_exchange_weak(before, claim, std::memory_order_relaxed)) {
    }
  }

  /// Places what the front chose before all others, up to the first group that it lost. Where
  /// others choose the same, it chooses less at a time.
  void keep(Front& front) {
    const std::uint64_t claim = claim_of(front);
    front.kept = 0;
    for (const std::int32_t group : front.chosen) {
      if (claims_[group] != claim) break;
      front.groups.push_back(group);
      front.fill.add(size_of(group), rule_.window_rows);
      open_.place(group);
      ++front.kept;
    }
    const bool lost = front.kept < std::ssize(front.chosen);
    front.most = lost ? std::max<std::int64_t>(rule_.window_rows / 2, front.kept)
                      : 2 * std::max<std::int64_t>(rule_.window_rows, front.most);
    front.most = std::min(front.most, (windows_ + 1) * rule_.window_rows);
  }

  /// The fronts that found rows in the last round; all of them, with new rows to begin with, when
  /// many found none.
  std::vector<Front*> working_fronts() {
    std::vector<Front*> all, working;
    for (Front& front : fronts_) {
      all.push_back(&front);
      if (!front.idle) working.push_back(&front);
    }
    if (8 * working.size() > 7 * all.size()) return working;
    deal(all);
    return all;
  }

  /// The fronts of a round when few rows are left, so that no window is begun that may stay
  /// incomplete: those with an incomplete window, and of the others as many as two windows each
  /// allow.
  std::vector<Front*> last_fronts() {
    std::vector<Front*> last;
    const auto is_complete = [&](const Front& front) {
      return front.fill.rows % rule_.window_rows == 0;
    };
    for (Front& front : fronts_)
      if (!is_complete(front)) last.push_back(&front);
    const std::int64_t most = std::max<std::int64_t>(1, open_groups_ / (2 * rule_.window_rows));
    for (Front& front : fronts_)
      if (is_complete(front) && std::ssize(last) < most) last.push_back(&front);
    deal(last);
    return last;
  }

  /// Divides the open groups among fronts.
  void deal(const std::vector<Front*>& fronts) {
    std::erase_if(waiting_, [&](std::int32_t group) { return !open_.is_open(group); });
    const auto begin_of = [&](std::size_t front) {
      const std::size_t place = waiting_.size() * front / fronts.size();
      return place < waiting_.size() ? waiting_[place] : groups_.size();
    };
    for (std::size_t i = 0; i < fronts.size(); ++i) {
      fronts[i]->next = begin_of(i);
      fronts[i]->end = begin_of(i + 1);
    }
  }

  /// The rows of complete windows, then the others that are placed, then the open ones.
  void write_out(std::span<std::int32_t> order) const {
    auto out = order.begin();
    std::vector<std::int32_t> rest, rows;
    for (const Front& front : fronts_) {
      rows.clear();
      for (const std::int32_t group : front.groups)
        rows.insert(rows.end(), groups_.of(group).begin(), groups_.of(group).end());
      const auto incomplete = rows.end() - std::ssize(rows) % rule_.window_rows;
      out = std::copy(rows.begin(), incomplete, out);
      rest.insert(rest.end(), incomplete, rows.end());
    }
    for (std::int32_t group = 0; group < groups_.size(); ++group)
      if (open_.is_open(group))
        rest.insert(rest.end(), groups_.of(group).begin(), groups_.of(group).end());
    std::ranges::copy(rest, out);
  }

  const RowPattern& pattern_;
  const RowGroups& groups_;
  const ChainRule& rule_;
  OpenColumns open_;
  std::vector<std::uint64_t> claims_;  // [groups] the first claim of the latest round
  std::vector<std::int32_t> waiting_;  // groups that were open at the last deal, in base order
  std::vector<Front> fronts_;
  std::int64_t open_groups_;
  std::int64_t windows_ = 1;  // of a front in a round
  std::uint64_t round_ = 0;
  ScratchPool<Scratch> pool_;
};

/// The first rows of the stretches that the rows are divided into, and their end. Stretches have
/// about as many rows, and where there are several none has more than half of the nonzeros and a
/// window: hubs side by side would take the memory of all rows.
std::vector<std::int64_t> cut_stretches(const CsrMatrix& matrix,
                                        const std::vector<std::int32_t>& base,
                                        const ChainRule& rule) {
  const auto rows = std::ssize(base);
  if (rule.stretch_rows <= 0 || rows <= rule.stretch_rows) return {0, rows};
  const std::int64_t stretches = std::max<std::int64_t>(1, rows / rule.stretch_rows);
  const std::int64_t windows = (rows + rule.window_rows - 1) / rule.window_rows;
  std::vector<std::int64_t> begins{0};
  std::int64_t nonzeros = 0;
  for (std::int64_t window = 0, by_rows = 1; window < windows; ++window) {
    const std::int64_t begin = window * rule.window_rows;
    const bool is_next = window == windows * by_rows / stretches;
    if (is_next) ++by_rows;
    if (is_next || 2 * nonzeros >= matrix.nnz()) {
      if (begin > 0) begins.push_back(begin);
      nonzeros = 0;
    }
    for (std::int64_t i = begin; i < std::min(rows, begin + rule.window_rows); ++i)
      nonzeros += matrix.row_length(base[i]);
  }
  begins.push_back(rows);
  return begins;
}

}  // namespace

std::vector<std::int32_t> grow_windows(const CsrMatrix& matrix,
                                       const std::vector<std::int32_t>& base, const ChainRule& rule,
                                       Watch& watch) {
  const auto rows = std::ssize(base);
  const std::vector<std::int64_t> begins = cut_stretches(matrix, base, rule);
  std::vector<std::int32_t> order(base.size());
  for (std::size_t stretch = 0; stretch + 1 < begins.size(); ++stretch) {
    const std::int64_t begin = begins[stretch], size = begins[stretch + 1] - begin;
    if (watch.stopped()) {
      std::copy_n(base.begin() + begin, size, order.begin() + begin);
      continue;
    }
    const RowGroups groups =
        group_rows(matrix, std::span(base).subspan(begin, size), rule.merge_identical);
    const RowPattern pattern = number_columns(matrix, groups.firsts());
    const auto stops_at = [&](std::int64_t placed) {
      watch.report(static_cast<double>(begin + placed) / static_cast<double>(rows));
      return watch.stop();
    };
    Fronts(pattern, groups, rule).write(std::span(order).subspan(begin, size), stops_at);
  }
  return order;
}

}  // namespace tessera
