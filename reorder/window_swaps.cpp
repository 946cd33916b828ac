#include "reorder/window_swaps.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "formats/base/parallel.hpp"
#include "formats/base/parallel_sort.hpp"
#include "formats/base/scratch_pool.hpp"
#include "formats/base/shared_grain.hpp"
#include "reorder/inverted.hpp"
#include "reorder/window_columns.hpp"
#include "reorder/window_scores.hpp"

namespace tessera {
namespace {

constexpr std::int32_t kMostRows = 32;

/// The cost of a window by its number of active columns: its full TC blocks and, for the last one,
/// a share that rises steeply at first. So a swap that empties the last block of one window pays
/// even when the other window takes the columns.
class BlockCost {
 public:
  /// `power` is in (0, 1]: with 1 the cost is columns / 8, near 0 it is the number of blocks.
  explicit BlockCost(double power) {
    for (int rest = 0; rest < 8; ++rest)
      last_[rest] = static_cast<std::int64_t>(std::lround(kBlock * std::pow(rest / 8.0, power)));
  }
  std::int64_t operator()(std::int32_t active_cols) const {
    return active_cols / 8 * kBlock + last_[active_cols % 8];
  }

 private:
  static constexpr std::int64_t kBlock = 1024;
  std::array<std::int64_t, 8> last_{};
};

/// Two windows and the gain of swapping their best rows.
struct Pair {
  std::int32_t a, b;  // windows, a < b
  std::int32_t gain;

  auto rank() const { return std::tuple(-gain, a, b); }
};

/// Finds the pairs of windows to process, best first.
class PairSearch {
 public:
  PairSearch(const RowPattern& pattern, const Windows& windows, const SwapRule& rule)
      : pattern_(pattern),
        windows_(windows),
        rule_(rule),
        holders_(windows_of_columns(pattern, windows)),
        wishes_(windows.whole()) {}

  std::vector<Pair> pairs(Watch& watch) {
    constexpr std::int64_t kGrain = 16;  // windows with hubs take many times as long as others
    ScratchPool<Scratch> pool;
    parallel_for(windows_.whole(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      if (watch.stop()) return;
      pool.use([&](Scratch& scratch) {
        for (auto window = static_cast<std::int32_t>(begin); window < end; ++window)
          wishes_[window] = wishes(window, scratch);
      });
    });
    holders_ = {};  // only wishes need them
    std::vector<std::vector<Pair>> found((windows_.whole() + kGrain - 1) / kGrain);
    parallel_for(windows_.whole(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (auto window = static_cast<std::int32_t>(begin); window < end; ++window)
        answer(window, found[begin / kGrain]);
    });
    std::vector<std::vector<Wish>>().swap(wishes_);
    std::vector<Pair> pairs;
    for (auto& piece : found) {
      pairs.insert(pairs.end(), piece.begin(), piece.end());
      std::vector<Pair>().swap(piece);
    }
    parallel_sort(pairs, [](const Pair& p, const Pair& q) { return p.rank() < q.rank(); });
    return pairs;
  }

 private:
  // On shuffled DD nine of ten swaps are in pairs that gain at least kLeastGain, which are two
  // fifths of all pairs. Wishes below kLeastWish are not kept: the answer would have to gain 5.
  static constexpr std::int32_t kLeastGain = -1, kLeastWish = -6;

  /// A window in which a row would fit better, and the columns that its move would save. Six bytes,
  /// since there are many: a gain beyond 16 bits counts as the largest of those.
  class Wish {
   public:
    Wish(std::int32_t window, std::int32_t gain)
        : low_(static_cast<std::uint16_t>(window)),
          high_(static_cast<std::uint16_t>(window >> 16)),
          gain_(static_cast<std::int16_t>(
              std::min<std::int32_t>(gain, std::numeric_limits<std::int16_t>::max()))) {}

    std::int32_t window() const { return std::int32_t{high_} << 16 | low_; }
    std::int32_t gain() const { return gain_; }

   private:
    std::uint16_t low_, high_;  // halves of the window's number
    std::int16_t gain_;
  };
  struct Scratch {
    WindowScores scores;
    std::vector<std::int32_t> holders;  // [cols] rows of the window that hold the column
    std::vector<Wish> wishes;
  };

  /// The windows in which rows of `window` would fit better, ascending, each with its best gain. A
  /// row that moves saves the columns that only it holds and costs those that the other window does
  /// not have; the gain is the columns that it shares there minus those that it shares here.
  std::vector<Wish> wishes(std::int32_t window, Scratch& scratch) const {
    scratch.holders.resize(pattern_.cols, 0);
    scratch.scores.resize(windows_.count());
    const auto rows = windows_.rows(window);
    for (const std::int32_t row : rows)
      for (const std::int32_t col : pattern_.row_cols(row)) ++scratch.holders[col];
    std::vector<Wish>& wishes = scratch.wishes;
    wishes.clear();
    for (const std::int32_t row : rows) {
      std::int32_t shared = 0;
      for (const std::int32_t col : pattern_.row_cols(row)) {
        shared += scratch.holders[col] > 1;
        for (const std::int32_t other : nearest(holders_.of(col), window, rule_.candidates))
          scratch.scores.count(other);
      }
      scratch.scores.remove(window);
      scratch.scores.for_best(rule_.partners, [&](std::int32_t other, std::int32_t common) {
        if (other < windows_.whole() && common - shared >= kLeastWish)
          wishes.emplace_back(other, common - shared);
      });
    }
    for (const std::int32_t row : rows)
      for (const std::int32_t col : pattern_.row_cols(row)) scratch.holders[col] = 0;
    std::ranges::sort(wishes, {}, [](const Wish& w) { return std::pair(w.window(), -w.gain()); });
    const auto repeated = std::ranges::unique(wishes, {}, &Wish::window);
    return {wishes.begin(), repeated.begin()};
  }

  /// Appends the pairs of a window with later windows that have a wish for it too. No swap saves
  /// more columns than the sum of the two gains; a swap that saves none may still empty a TC block.
  void answer(std::int32_t window, std::vector<Pair>& pairs) const {
    for (const Wish& wish : wishes_[window]) {
      if (wish.window() < window) continue;
      const auto& back = wishes_[wish.window()];
      const auto answer = std::ranges::lower_bound(back, window, {}, &Wish::window);
      if (answer == back.end() || answer->window() != window) continue;
      const std::int32_t gain = wish.gain() + answer->gain();
      if (gain >= kLeastGain) pairs.push_back({window, wish.window(), gain});
    }
  }

  const RowPattern& pattern_;
  const Windows windows_;
  const SwapRule rule_;
  Inverted holders_;                       // windows of each column
  std::vector<std::vector<Wish>> wishes_;  // [whole windows]
};

/// The pairs divided into steps: no two pairs of a step share a window, and a pair comes after all
/// earlier pairs that share a window with it. So the pairs of a step can run in parallel with the
/// result of a sequential run.
std::vector<std::vector<Pair>> in_steps(const std::vector<Pair>& pairs, std::int32_t windows) {
  std::vector<std::int32_t> next(windows, 0);  // the first step without the window
  std::vector<std::vector<Pair>> steps;
  for (const Pair& pair : pairs) {
    const std::int32_t step = std::max(next[pair.a], next[pair.b]);
    next[pair.a] = next[pair.b] = step + 1;
    if (step == std::ssize(steps)) steps.emplace_back();
    steps[step].push_back(pair);
  }
  return steps;
}

/// The rows of a pair of windows and, for each column, the rows that hold it.
class PairTable {
 public:
  /// Makes the best swap until no swap lowers the cost; returns the number of swaps.
  std::int32_t swap_all(const RowPattern& pattern, std::span<std::int32_t> a,
                        std::span<std::int32_t> b, const BlockCost& cost) {
    height_ = static_cast<std::int32_t>(a.size());
    holders_.resize(pattern.cols);
    for (std::int32_t i = 0; i < height_; ++i) {
      enter(pattern.row_cols(a[i]), &Holders::a, i);
      enter(pattern.row_cols(b[i]), &Holders::b, i);
    }
    // The cost falls with every swap, so this ends; the bound limits the time of one pair.
    std::int32_t swaps = 0;
    for (; swaps < 2 * height_; ++swaps) {
      const auto [i, k] = best_swap(cost);
      if (i < 0) break;
      for (const std::int32_t col : pattern.row_cols(a[i])) holders_[col].a ^= bit(i);
      for (const std::int32_t col : pattern.row_cols(b[k])) holders_[col].b ^= bit(k);
      std::swap(a[i], b[k]);
      for (const std::int32_t col : pattern.row_cols(a[i])) holders_[col].a ^= bit(i);
      for (const std::int32_t col : pattern.row_cols(b[k])) holders_[col].b ^= bit(k);
    }
    for (const std::int32_t col : active_) holders_[col] = {};
    active_.clear();
    return swaps;
  }

 private:
  /// The rows of the two windows that hold a column, as bits.
  struct Holders {
    std::uint32_t a = 0, b = 0;
  };
  struct Swap {
    std::int32_t i, k;  // rows of a and of b; -1 for none
  };
  using PerRow = std::array<std::int32_t, kMostRows>;

  static constexpr std::uint32_t bit(std::int32_t row) { return std::uint32_t{1} << row; }

  void enter(std::span<const std::int32_t> cols, std::uint32_t Holders::*side, std::int32_t row) {
    for (const std::int32_t col : cols) {
      Holders& holders = holders_[col];
      if ((holders.a | holders.b) == 0) active_.push_back(col);
      holders.*side |= bit(row);
    }
  }

  static constexpr bool is_alone(std::uint32_t rows) {
    return rows != 0 && (rows & (rows - 1)) == 0;
  }

  template <class Visit>
  static void for_each_row(std::uint32_t rows, Visit visit) {
    for (; rows != 0; rows &= rows - 1) visit(std::countr_zero(rows));
  }

  /// Counts the changes of both windows' active columns when row i of a and row k of b change
  /// places: a sum over columns of a term of i, a term of k and a term of both.
  void count_changes() {
    for (auto* parts : {&a_of_i_, &a_of_k_, &b_of_i_, &b_of_k_}) parts->fill(0);
    for (std::int32_t i = 0; i < height_; ++i) {
      std::fill_n(a_of_both_[i].begin(), height_, 0);
      std::fill_n(b_of_both_[i].begin(), height_, 0);
    }
    a_cols_ = b_cols_ = 0;
    for (const std::int32_t col : active_) {
      const auto [a, b] = holders_[col];
      a_cols_ += a != 0;
      b_cols_ += b != 0;
      if (a == 0) for_each_row(b, [&](int k) { ++a_of_k_[k]; });
      if (b == 0) for_each_row(a, [&](int i) { ++b_of_i_[i]; });
      if (is_alone(a)) {  // the column leaves with its row, unless the other row has it
        const int i = std::countr_zero(a);
        --a_of_i_[i];
        for_each_row(b, [&](int k) { ++a_of_both_[i][k]; });
      }
      if (is_alone(b)) {
        const int k = std::countr_zero(b);
        --b_of_k_[k];
        for_each_row(a, [&](int i) { ++b_of_both_[i][k]; });
      }
    }
  }

  Swap best_swap(const BlockCost& cost) {
    count_changes();
    Swap best{-1, -1};
    std::int64_t least = cost(a_cols_) + cost(b_cols_);
    for (std::int32_t i = 0; i < height_; ++i) {
      for (std::int32_t k = 0; k < height_; ++k) {
        const std::int64_t after = cost(a_cols_ + a_of_i_[i] + a_of_k_[k] + a_of_both_[i][k]) +
                                   cost(b_cols_ + b_of_i_[i] + b_of_k_[k] + b_of_both_[i][k]);
        if (after >= least) continue;
        least = after;
        best = {i, k};
      }
    }
    return best;
  }

  std::int32_t height_ = 0;
  std::vector<Holders> holders_;      // [cols]
  std::vector<std::int32_t> active_;  // columns that some row holds
  std::int32_t a_cols_ = 0, b_cols_ = 0;
  PerRow a_of_i_{}, a_of_k_{}, b_of_i_{}, b_of_k_{};
  std::array<PerRow, kMostRows> a_of_both_{}, b_of_both_{};
};

std::int64_t swap_pairs(const RowPattern& pattern, std::vector<std::int32_t>& order,
                        std::int32_t height, const std::vector<Pair>& pairs, const BlockCost& cost,
                        Watch& watch) {
  const auto rows_of = [&](std::int32_t window) {
    return std::span(order).subspan(std::size_t(window) * height, height);
  };
  ScratchPool<PairTable> pool;
  std::int64_t swaps = 0;
  for (const auto& step : in_steps(pairs, static_cast<std::int32_t>(order.size()) / height)) {
    const std::int64_t grain = shared_grain(std::ssize(step), 4, 64);
    std::vector<std::int64_t> made((step.size() + grain - 1) / grain, 0);
    parallel_for(std::ssize(step), grain, [&](std::int64_t begin, std::int64_t end) {
      if (watch.stop()) return;
      pool.use([&](PairTable& table) {
        for (std::int64_t p = begin; p < end; ++p)
          made[begin / grain] +=
              table.swap_all(pattern, rows_of(step[p].a), rows_of(step[p].b), cost);
      });
    });
    swaps += std::accumulate(made.begin(), made.end(), std::int64_t{0});
  }
  return swaps;
}

}  // namespace

std::int64_t swap_rows(const RowPattern& pattern, std::vector<std::int32_t>& order,
                       const SwapRule& rule, Watch& watch) {
  assert(rule.window_rows <= kMostRows);
  std::int64_t swaps = 0;
  for (std::int32_t pass = 0; pass < rule.passes && !watch.stop(); ++pass) {
    // Early passes save columns, the last one whole blocks.
    const bool is_last = pass + 1 == rule.passes;
    const std::vector<Pair> pairs =
        PairSearch(pattern, {order, rule.window_rows}, rule).pairs(watch);
    watch.report((pass + 0.5) / rule.passes);
    swaps +=
        swap_pairs(pattern, order, rule.window_rows, pairs, BlockCost(is_last ? 0.25 : 0.5), watch);
  }
  return swaps;
}

std::int64_t swap_neighbours(const RowPattern& pattern, std::vector<std::int32_t>& order,
                             std::int32_t window_rows, Watch& watch) {
  std::vector<Pair> pairs;
  const std::int32_t windows = Windows{order, window_rows}.whole();
  for (std::int32_t window = 0; window + 1 < windows; window += 2)
    pairs.push_back({window, window + 1, 0});
  return swap_pairs(pattern, order, window_rows, pairs, BlockCost(0.25), watch);
}

}  // namespace tessera
