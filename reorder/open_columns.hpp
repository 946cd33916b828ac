// For each column of some rows, those that hold it and are not placed yet: lists that a row can be
// taken out of, and walked from a row to its nearest neighbours on either side.
//
// Neighbours are places in a piece of at most 65535 entries, and a longer column is cut into
// several, across which nobody is a neighbour.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// The columns of some rows, numbered from 0 in the order in which they are met, so that all that
/// follows is as small as those rows.
struct LocalPattern {
  std::vector<std::int64_t> offsets{0};  // [rows + 1]
  std::vector<std::int32_t> cols;        // [offsets.back()] each once in a row
  std::int32_t col_count = 0;

  std::int32_t rows() const { return static_cast<std::int32_t>(offsets.size()) - 1; }
  std::int64_t row_length(std::int32_t row) const { return offsets[row + 1] - offsets[row]; }
};

class OpenColumns {
 public:
  explicit OpenColumns(const LocalPattern& pattern)
      : pattern_(pattern),
        begins_(std::size_t(pattern.col_count) + 1, 0),
        entries_(pattern.cols.size()),
        ranks_(pattern.cols.size()) {
    for (std::size_t k = 0; k < pattern.cols.size(); ++k)
      ranks_[k] = static_cast<std::int32_t>(begins_[pattern.cols[k] + 1]++);
    for (std::int32_t col = 0; col < pattern.col_count; ++col) begins_[col + 1] += begins_[col];
    for (std::int32_t row = 0; row < pattern.rows(); ++row)
      for (std::int64_t k = pattern.offsets[row]; k < pattern.offsets[row + 1]; ++k) link(row, k);
  }

  /// Takes a row, open until now, out of all its columns.
  void take_out(std::int32_t row) {
    for (std::int64_t k = pattern_.offsets[row]; k < pattern_.offsets[row + 1]; ++k) {
      Entry* const piece = piece_of(k);
      const Entry entry = piece[ranks_[k] % kNone];
      if (entry.before != kNone) piece[entry.before].after = entry.after;
      if (entry.after != kNone) piece[entry.after].before = entry.before;
    }
  }

  /// Calls visit(other) for the open rows nearest to an open `row` in its column of entry k of the
  /// pattern, at most so many on each side.
  template <class Visit>
  void visit_nearest(std::int64_t k, std::int32_t most, Visit visit) const {
    const Entry* const piece = piece_of(k);
    const Entry& entry = piece[ranks_[k] % kNone];
    Place place = entry.before;
    for (std::int32_t i = 0; i < most && place != kNone; ++i, place = piece[place].before)
      visit(piece[place].row);
    place = entry.after;
    for (std::int32_t i = 0; i < most && place != kNone; ++i, place = piece[place].after)
      visit(piece[place].row);
  }

 private:
  using Place = std::uint16_t;
  static constexpr Place kNone = 65535;
  struct Entry {
    std::int32_t row;
    Place before, after;  // in the piece; the nearest open rows
  };

  void link(std::int32_t row, std::int64_t k) {
    const std::int32_t col = pattern_.cols[k], rank = ranks_[k];
    const bool is_last = begins_[col] + rank + 1 == begins_[col + 1];
    const auto place = static_cast<Place>(rank % kNone);
    entries_[begins_[col] + rank] = {
        row, place == 0 ? kNone : static_cast<Place>(place - 1),
        is_last || place == kNone - 1 ? kNone : static_cast<Place>(place + 1)};
  }

  std::int64_t piece_begin(std::int64_t k) const {
    return begins_[pattern_.cols[k]] + ranks_[k] / kNone * kNone;
  }
  Entry* piece_of(std::int64_t k) { return entries_.data() + piece_begin(k); }
  const Entry* piece_of(std::int64_t k) const { return entries_.data() + piece_begin(k); }

  const LocalPattern& pattern_;
  std::vector<std::int64_t> begins_;  // [columns + 1]
  std::vector<Entry> entries_;        // [entries of the pattern] by column
  std::vector<std::int32_t> ranks_;   // [entries of the pattern] by row: of the row in the column
};

}  // namespace tessera
