// The search of the order `matched`, written once for a CPU and a GPU: `Exec` runs the steps of
// matched_steps.hpp, matched_partners.hpp and matched_windows.hpp, sorts and sums. Both give the
// same order.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "reorder/matched_partners.hpp"
#include "reorder/matched_placement.hpp"
#include "reorder/matched_steps.hpp"
#include "reorder/matched_windows.hpp"

namespace tessera::matched {

struct Options {
  std::uint32_t reach = 64;     // holders that a column offers on each side, for clusters
  std::uint32_t row_reach = 8;  // and for a row that looks for a better window
  int swap_passes = 1;
  int rounds = 7;  // of a matching
  bool keep_natural = true;
};

template <class Exec>
class Search {
 public:
  template <class T>
  using Array = typename Exec::template Array<T>;

  Search(Exec& exec, const Pattern& pattern, const Options& options)
      : exec_(exec),
        pattern_(pattern),
        options_(options),
        placement_(exec, pattern),
        order_(exec.template array<std::int32_t>(pattern.rows)),
        moved_(exec.template array<std::int32_t>(pattern.rows)),
        masks_(exec.template array<std::uint16_t>(pattern.nnz)),
        mates_(exec.template array<std::int32_t>(pattern.rows)),
        to_(exec.template array<std::int32_t>(pattern.rows)),
        columns_(exec.template array<std::uint32_t>(pattern.rows + 1)),
        offers_(exec.template array<std::uint32_t>(pattern.rows)),
        ranks_(exec.template array<std::uint32_t>(pattern.rows + 1)),
        blocks_(exec.template array<std::uint32_t>(2)),
        shared_cols_(exec.template array<std::uint32_t>(pattern.rows)),
        proposals_(exec.template array<Key>(pattern.rows)),
        best_(exec.template array<Key>(pattern.rows)),
        partners_(exec.template array<Key>(std::int64_t{pattern.rows} * kPartners)),
        wishes_(exec.template array<Key>(std::int64_t{pattern.rows} * kPartners)) {}

  /// Finds the order; when the executor stops, the order so far.
  void run() {
    exec_.for_each(pattern_.rows, Count{order_.data()});
    if (pattern_.rows <= kWindowRows || pattern_.nnz == 0) return;
    for (int level = 0; level < kWindowLevel && !exec_.stops(); ++level) {
      place();
      if (level == 0) {
        count_columns();
        sum_blocks(blocks_.data());
      }
      merge(level);
    }
    for (int pass = 0; pass < options_.swap_passes && !exec_.stops(); ++pass)
      swap(block_cost(pass + 1 < options_.swap_passes ? 0.5 : 0.25));
    if (!exec_.stops()) {
      place();
      merge(kWindowLevel);
    }
    place();
    count_columns();
    if (!exec_.stops()) {
      exec_.for_each(windows(), MateNeighbour{windows(), mates_.data()});
      swap_mates(block_cost(0.25), columns_.data());
    }
    sum_blocks(blocks_.data() + 1);
    if (options_.keep_natural)
      exec_.for_each(pattern_.rows, ChooseRow{blocks_.data(), blocks_.data() + 1, order_.data()});
    exec_.phase("end");
  }

  static std::int64_t bytes(std::int64_t rows, std::int64_t cols, std::int64_t nnz,
                            const Options&) {
    return Placement<Exec>::bytes(rows, cols, nnz) + 148 * rows + 2 * nnz;
  }

  /// The old indices of the rows in their new order, [rows].
  Array<std::int32_t>& order() { return order_; }

 private:
  std::int32_t windows() const { return pattern_.rows >> kWindowLevel; }

  /// A steep power counts whole blocks; one near 1 counts columns.
  static BlockCost block_cost(double power) {
    BlockCost cost{};
    for (int rest = 0; rest < 8; ++rest)
      cost.last[rest] = static_cast<std::uint32_t>(std::lround(1024 * std::pow(rest / 8.0, power)));
    return cost;
  }

  void place() { placed_ = placement_.put(order_.data()); }

  std::int64_t all_windows() const {
    return (pattern_.rows + std::int64_t{kWindowRows} - 1) / kWindowRows;
  }
  void count_columns() {
    exec_.phase("count columns");
    exec_.for_teams(all_windows(),
                    MeasureCluster{placed_, kWindowLevel, 0, columns_.data(), nullptr});
  }
  void sum_blocks(std::uint32_t* sum) {
    exec_.phase("count TC blocks");
    const std::int64_t all = all_windows();
    exec_.running_sum(CountBlocks{columns_.data(), all}, ranks_.data(), all + 1);
    exec_.copy(ranks_.data() + all, sum, 1);
  }

  /// Matches the clusters of a level and moves those of a pair together.
  void merge(int level) {
    const std::int32_t clusters = pattern_.rows >> level;
    // Pairs of windows are worth less of the time than windows.
    const std::uint32_t reach =
        level < kWindowLevel ? options_.reach : most(1u, options_.reach / 2);
    exec_.phase("count offers");
    exec_.for_teams(clusters,
                    MeasureCluster{placed_, level, reach, columns_.data(), offers_.data()});
    // Those that others were preferred to search once more, among themselves.
    for (const bool is_first : {true, false}) {
      exec_.phase(is_first ? "partners of all clusters" : "partners of free clusters");
      exec_.for_teams(clusters, FindPartners{.placed = placed_,
                                             .source_level = level,
                                             .level = level,
                                             .clusters = clusters,
                                             .reach = reach,
                                             .offers = offers_.data(),
                                             .columns = columns_.data(),
                                             .mates = is_first ? nullptr : mates_.data(),
                                             .shared_cols = nullptr,
                                             .kept = kPartners,
                                             .partners = partners_.data()});
      match(clusters, is_first);
    }
    exec_.phase("move rows");
    const std::int64_t all = clusters + std::int64_t{1};
    exec_.running_sum(FlagFree{mates_.data(), clusters}, ranks_.data(), all);
    exec_.for_each(clusters, ListFree{mates_.data(), ranks_.data(), to_.data()});
    exec_.for_each(clusters,
                   MatchFree{ranks_.data(), to_.data(), ranks_.data() + clusters, mates_.data()});
    exec_.running_sum(FlagLeader{mates_.data(), clusters}, ranks_.data(), all);
    exec_.for_each(pattern_.rows, MoveRow{order_.data(), mates_.data(), ranks_.data(), level,
                                          clusters, moved_.data()});
    std::swap(order_, moved_);
  }

  /// Matches clusters by their partners; those with a mate keep it, unless nobody is to have one.
  void match(std::int32_t clusters, bool from_none) {
    exec_.phase("match");
    exec_.for_rounds(
        clusters, options_.rounds, StartMatching{best_.data(), from_none ? mates_.data() : nullptr},
        Propose{partners_.data(), mates_.data(), proposals_.data(), to_.data(), best_.data()},
        Accept{proposals_.data(), to_.data(), best_.data(), mates_.data()});
  }

  /// Swaps rows between pairs of windows that each have a row which would gain in the other.
  void swap(const BlockCost& cost) {
    place();
    exec_.phase("windows for rows");
    exec_.for_teams(pattern_.rows, FindPartners{.placed = placed_,
                                                .source_level = 0,
                                                .level = kWindowLevel,
                                                .clusters = windows(),
                                                .reach = options_.row_reach,
                                                .offers = nullptr,
                                                .columns = nullptr,
                                                .mates = nullptr,
                                                .shared_cols = shared_cols_.data(),
                                                .kept = kWishes,
                                                .partners = partners_.data()});
    exec_.phase("wishes");
    exec_.for_each(windows(), CollectWishes{partners_.data(), shared_cols_.data(), wishes_.data()});
    exec_.for_each(windows(), AnswerWishes{wishes_.data(), partners_.data()});
    constexpr int kMatchings = 2;
    for (int matching = 0; matching < kMatchings; ++matching) {
      if (matching > 0) {
        exec_.for_each(windows(), ForgetMate{mates_.data(), partners_.data()});
        place();
      }
      match(windows(), true);
      swap_mates(cost);
    }
  }

  /// Counts the columns of the windows, too, where `columns` is not null.
  void swap_mates(const BlockCost& cost, std::uint32_t* columns = nullptr) {
    exec_.phase("swap rows");
    exec_.for_teams(windows(), SwapRows{placed_, mates_.data(), cost, order_.data(), masks_.data(),
                                        moved_.data(), columns});
    std::swap(order_, moved_);
  }

  Exec& exec_;
  const Pattern pattern_;
  const Options options_;
  Placement<Exec> placement_;
  Array<std::int32_t> order_, moved_;              // [rows]
  Array<std::uint16_t> masks_;                     // [nnz]
  Array<std::int32_t> mates_, to_;                 // [clusters]
  Array<std::uint32_t> columns_, offers_, ranks_;  // [clusters + 1]
  Array<std::uint32_t> blocks_;                    // [2]
  Array<std::uint32_t> shared_cols_;               // [rows]
  Array<Key> proposals_, best_;                    // [clusters]
  Array<Key> partners_, wishes_;                   // [clusters * kPartners]
  Placed placed_;
};

}  // namespace tessera::matched
