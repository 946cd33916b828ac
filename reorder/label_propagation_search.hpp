// The search of the order `label_propagation` and its parameters, for a CPU and a GPU.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "formats/base/params.hpp"
#include "reorder/label_steps.hpp"
#include "reorder/matched_placement.hpp"
#include "reorder/watch.hpp"

namespace tessera::matched {

struct LabelOptions {
  int rounds = 2;
  std::uint32_t seed = 1;
};

inline std::vector<ParamSpec> label_params() {
  return {{"rounds",
           std::int64_t{4},
           "rounds of votes for small communities, and for large ones",
           {},
           1,
           100},
          {"seed", std::int64_t{1}, "seed of the labels that rows draw", {}, 0, 0x1p31},
          time_limit_param()};
}

inline LabelOptions label_options(const Params& params) {
  return {.rounds = static_cast<int>(params.integer("rounds")),
          .seed = static_cast<std::uint32_t>(params.integer("seed"))};
}

template <class Exec>
class LabelSearch {
 public:
  template <class T>
  using Array = typename Exec::template Array<T>;

  LabelSearch(Exec& exec, const Pattern& pattern, const LabelOptions& options)
      : exec_(exec),
        pattern_(pattern),
        options_(options),
        placement_(exec, pattern),
        order_(exec.template array<std::int32_t>(pattern.rows)),
        moved_(exec.template array<std::int32_t>(pattern.rows)),
        labels_(exec.template array<std::int32_t>(pattern.rows)),
        col_labels_(exec.template array<std::int32_t>(pattern.cols)),
        sizes_(exec.template array<std::uint32_t>(pattern.rows)),
        keys_(exec.template array<std::uint32_t>(pattern.rows)),
        sorted_keys_(exec.template array<std::uint32_t>(pattern.rows)),
        found_(exec.template array<Key>(std::max(pattern.rows, pattern.cols))) {}

  /// Finds the order; when the executor stops, the order so far.
  void run() {
    exec_.for_each(pattern_.rows, Count{order_.data()});
    if (pattern_.nnz == 0) return;
    placed_ = placement_.put(order_.data());
    exec_.phase("start");
    exec_.for_each(pattern_.rows, DrawKey{mixed(options_.seed), keys_.data()});
    sort_by_keys(32);
    exec_.for_each(pattern_.rows, DrawLabel{reinterpret_cast<const std::uint32_t*>(moved_.data()),
                                            labels_.data()});
    for (const int shift : kShifts) {
      for (int round = 0; round < options_.rounds && !exec_.stops(); ++round) vote(shift);
      sort();
    }
    exec_.phase("end");
  }

  static std::int64_t bytes(std::int64_t rows, std::int64_t cols, std::int64_t nnz,
                            const LabelOptions&) {
    return Placement<Exec>::bytes(rows, cols, nnz) + 32 * rows + 12 * cols;
  }

  /// The old indices of the rows in their new order, [rows].
  Array<std::int32_t>& order() { return order_; }

 private:
  static constexpr int kShifts[2] = {0, 4};  // of small communities, then of large ones

  /// Columns take labels of rows, then rows those of columns.
  void vote(int shift) {
    count_sizes(placed_.offsets, labels_.data(), pattern_.rows);
    exec_.phase("votes of columns");
    exec_.for_teams(
        pattern_.cols,
        Vote{placed_.col_offsets, placed_.holders, labels_.data(), sizes_.data(), pattern_.rows,
             shift, std::exchange(cols_have_labels_, true), col_labels_.data(), found_.data()});
    count_sizes(placed_.col_offsets, col_labels_.data(), pattern_.cols);
    exec_.phase("votes of rows");
    exec_.for_teams(pattern_.rows,
                    Vote{placed_.offsets, placed_.cols, col_labels_.data(), sizes_.data(),
                         pattern_.rows, shift, true, labels_.data(), found_.data()});
  }
  void count_sizes(const std::uint32_t* offsets, const std::int32_t* labels, std::int32_t holders) {
    exec_.phase("count labels");
    exec_.for_rounds(std::max(pattern_.rows, holders), 1, ClearSize{sizes_.data(), pattern_.rows},
                     AddSize{sizes_.data(), offsets, labels, holders}, NoStep{});
  }
  /// Rows of a label together, else in their order.
  void sort() {
    exec_.phase("sort rows by label");
    exec_.for_rounds(pattern_.rows, 1, ClearFirst{found_.data()},
                     MeetLabel{order_.data(), labels_.data(), found_.data()}, NoStep{});
    exec_.for_each(pattern_.rows,
                   FirstOfLabel{order_.data(), labels_.data(), found_.data(), keys_.data()});
    sort_by_keys(std::bit_width(static_cast<unsigned>(pattern_.rows)));
    std::swap(order_, moved_);
  }
  /// Sorts the order at hand into the other one.
  void sort_by_keys(int bits) {
    exec_.sort_pairs(keys_.data(), sorted_keys_.data(),
                     reinterpret_cast<const std::uint32_t*>(order_.data()),
                     reinterpret_cast<std::uint32_t*>(moved_.data()), pattern_.rows, bits);
  }

  Exec& exec_;
  const Pattern pattern_;
  const LabelOptions options_;
  Placement<Exec> placement_;
  Placed placed_;
  Array<std::int32_t> order_, moved_, labels_;       // [rows]
  Array<std::int32_t> col_labels_;                   // [columns]
  Array<std::uint32_t> sizes_, keys_, sorted_keys_;  // [rows]
  Array<Key> found_;                                 // [rows], or columns where these are more
  bool cols_have_labels_ = false;
};

}  // namespace tessera::matched
