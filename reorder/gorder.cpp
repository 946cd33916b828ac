// Gorder (Wei, Yu, Lu and Lin, SIGMOD 2016, algorithms 1 and 2) on A^T: the next row is the one
// with the largest sum of scores to the last `window` rows placed. The score of two rows is the
// columns they share (siblings) plus, in a square matrix, the nonzeros that lead from one to the
// other.
//
// Readings: the graph is A^T, since a tile holds rows that share columns; the first row is the
// longest one; among rows with the same score the one that has had it longest is next. Departures:
// a placement changes each score once (for the row that enters the window and the one that leaves
// it), not one unit at a time; where no row has a score the next one in the order of the file
// follows. Columns of more than `hub_length` nonzeros count no siblings, since the time is the sum
// of the squares of the other columns' lengths: by default columns count, the shortest first, up to
// 256 siblings per nonzero. One thread. Memory: A^T (4 bytes per nonzero) and about 40 bytes per
// row.

#include <algorithm>
#include <utility>

#include "formats/base/registry.hpp"
#include "reorder/graph.hpp"

namespace tessera {
namespace {

/// The open rows with a score, in a queue per score (the paper's unit heap): any change of a score
/// takes constant time, and the first row of the best score's queue is taken.
class UnitHeap {
 public:
  explicit UnitHeap(std::int32_t rows) : nodes_(rows), queues_(1) {}

  static constexpr std::int32_t kNone = -1;

  void change(std::int32_t row, std::int32_t by) {
    take_out(row);
    Node& node = nodes_[row];
    node.score += by;
    if (node.score == 0) return;
    if (node.score >= static_cast<std::int32_t>(queues_.size()))
      queues_.resize(static_cast<std::size_t>(node.score) + 1);
    Queue& queue = queues_[node.score];
    node.before = queue.last;
    node.after = kNone;
    (queue.last == kNone ? queue.first : nodes_[queue.last].after) = row;
    queue.last = row;
    best_ = std::max(best_, node.score);
  }

  /// Removes and returns a row of the highest score; kNone when no row has a score.
  std::int32_t take_best() {
    while (best_ > 0 && queues_[best_].first == kNone) --best_;
    if (best_ == 0) return kNone;
    const std::int32_t row = queues_[best_].first;
    take_out(row);
    nodes_[row].score = 0;
    return row;
  }

 private:
  struct Node {
    std::int32_t score = 0;
    std::int32_t before = kNone, after = kNone;  // rows of the same score
  };
  struct Queue {
    std::int32_t first = kNone, last = kNone;
  };

  void take_out(std::int32_t row) {
    const Node& node = nodes_[row];
    if (node.score == 0) return;
    Queue& queue = queues_[node.score];
    (node.before == kNone ? queue.first : nodes_[node.before].after) = node.after;
    (node.after == kNone ? queue.last : nodes_[node.after].before) = node.before;
  }

  std::vector<Node> nodes_;    // [rows]
  std::vector<Queue> queues_;  // [highest score so far + 1]
  std::int32_t best_ = 0;      // no row's score is higher
};

class GorderSearch {
 public:
  GorderSearch(const CsrMatrix& matrix, std::int64_t hub_length)
      : matrix_(matrix),
        columns_(rows_of_columns(matrix)),
        hub_length_(hub_length > 0 ? hub_length : affordable_length()),
        heap_(matrix.rows),
        placed_(matrix.rows, false),
        change_(matrix.rows, 0) {}

  std::vector<std::int32_t> order(std::size_t window, Watch& watch) {
    std::vector<std::int32_t> order;
    order.reserve(matrix_.rows);
    for (std::int32_t next = 0; order.size() < placed_.size();) {
      std::int32_t row = order.empty() ? longest_row() : heap_.take_best();
      if (row == UnitHeap::kNone) {
        while (placed_[next]) ++next;
        row = next;
      }
      placed_[row] = true;
      order.push_back(row);
      if (must_stop(watch, order.size())) break;
      count(row, 1);
      if (order.size() > window) count(order[order.size() - 1 - window], -1);
      apply_changes();
    }
    for (std::int32_t row = 0; row < matrix_.rows; ++row)
      if (!placed_[row]) order.push_back(row);
    return order;
  }

 private:
  static constexpr std::int64_t kPairsPerLook = 1 << 19;  // about a millisecond

  /// The largest length up to which columns together have at most kPairsPerNonzero siblings per
  /// nonzero.
  std::int64_t affordable_length() const {
    constexpr double kPairsPerNonzero = 256;
    std::vector<std::int64_t> lengths(matrix_.cols);
    for (std::int32_t col = 0; col < matrix_.cols; ++col) lengths[col] = columns_.degree(col);
    std::ranges::sort(lengths);
    double left = kPairsPerNonzero * static_cast<double>(matrix_.nnz());
    for (const std::int64_t length : lengths) {
      left -= static_cast<double>(length) * static_cast<double>(length);
      if (left < 0) return length - 1;
    }
    return matrix_.rows;
  }

  std::int32_t longest_row() const {
    std::int32_t longest = 0;
    for (std::int32_t row = 1; row < matrix_.rows; ++row)
      if (matrix_.row_length(row) > matrix_.row_length(longest)) longest = row;
    return longest;
  }

  bool must_stop(Watch& watch, std::size_t rows_done) {
    if (pairs_ < kPairsPerLook) return false;
    pairs_ = 0;
    watch.report(static_cast<double>(rows_done) / matrix_.rows);
    return watch.stop();
  }

  /// Adds (sign 1) or removes (-1) the scores to `row`.
  void count(std::int32_t row, std::int32_t sign) {
    const bool square = matrix_.rows == matrix_.cols;
    for (const std::int32_t col : matrix_.row_cols(row)) {
      if (square) note(col, sign);
      if (columns_.degree(col) > hub_length_) continue;
      for (const std::int32_t sibling : columns_.of(col)) note(sibling, sign);
      pairs_ += columns_.degree(col);
    }
    if (square)
      for (const std::int32_t other : columns_.of(row)) note(other, sign);
    pairs_ += matrix_.row_length(row) + 1;
  }

  void note(std::int32_t row, std::int32_t sign) {
    if (change_[row] == 0) changed_.push_back(row);
    change_[row] += sign;
  }

  void apply_changes() {
    for (const std::int32_t row : changed_) {
      const std::int32_t by = std::exchange(change_[row], 0);  // 0 if the row is listed twice
      if (by != 0 && !placed_[row]) heap_.change(row, by);
    }
    changed_.clear();
  }

  const CsrMatrix& matrix_;
  Adjacency columns_;
  std::int64_t hub_length_;
  UnitHeap heap_;
  std::vector<bool> placed_;           // [rows]
  std::vector<std::int32_t> change_;   // [rows] pending changes of the scores
  std::vector<std::int32_t> changed_;  // rows with a change
  std::int64_t pairs_ = 0;             // processed since the last watch.stop()
};

class Gorder final : public Reordering {
 public:
  Gorder(const Params& params)
      : window_(static_cast<std::size_t>(params.integer("window"))),
        hub_length_(params.integer("hub_length")),
        time_limit_s_(params.real("time_limit_s")),
        apply_(params.text("apply")) {}

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(time_limit_s_);
    std::vector<std::int32_t> rows = GorderSearch(matrix, hub_length_).order(window_, watch);
    return on_sides(std::move(rows), matrix.rows == matrix.cols ? apply_ : "rows");
  }

 private:
  std::size_t window_;
  std::int64_t hub_length_;
  double time_limit_s_;
  std::string apply_;
};

const Register<Reordering> entry{{
    .name = "gorder",
    .summary = "Gorder on A^T: the next row has most in common with the last few",
    .params =
        {{"window", std::int64_t{5}, "last rows to compare with: w of the paper", {}, 1, 1024},
         {"hub_length",
          std::int64_t{0},
          "nonzeros of the longest column that counts siblings; 0: the length that gives at "
          "most 256 siblings per nonzero",
          {},
          0,
          0x1p31},
         time_limit_param(),
         apply_to_both_sides()},
    .make = [](const Params& params) { return std::make_unique<Gorder>(params); },
}};

}  // namespace
}  // namespace tessera
