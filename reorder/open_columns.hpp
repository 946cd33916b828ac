// For each column of some rows, the list of the rows that hold it and are not placed yet. A row can
// be removed from its lists, and a list can be walked from a row to its nearest rows on each side.
//
// Links are 16-bit indices into a section of at most 65535 entries; a longer column has several
// sections, which are not linked with each other.
#pragma once

#include <cstdint>
#include <vector>

#include "reorder/row_pattern.hpp"

namespace tessera {

class OpenColumns {
 public:
  explicit OpenColumns(const RowPattern& pattern)
      : pattern_(pattern),
        begins_(std::size_t(pattern.cols) + 1, 0),
        entries_(pattern.col_indices.size()),
        ranks_(pattern.col_indices.size()) {
    for (std::size_t k = 0; k < pattern.col_indices.size(); ++k)
      ranks_[k] = static_cast<std::int32_t>(begins_[pattern.col_indices[k] + 1]++);
    for (std::int32_t col = 0; col < pattern.cols; ++col) begins_[col + 1] += begins_[col];
    for (std::int32_t row = 0; row < pattern.rows; ++row)
      for (std::int64_t k = pattern.row_offsets[row]; k < pattern.row_offsets[row + 1]; ++k)
        link(row, k);
  }

  /// Removes an open row from the lists of all its columns.
  void take_out(std::int32_t row) {
    for (std::int64_t k = pattern_.row_offsets[row]; k < pattern_.row_offsets[row + 1]; ++k) {
      Entry* const piece = piece_of(k);
      const Entry entry = piece[ranks_[k] % kNone];
      if (entry.before != kNone) piece[entry.before].after = entry.after;
      if (entry.after != kNone) piece[entry.after].before = entry.before;
    }
  }

  /// Calls visit(other) for the open rows nearest to an open row in one of its columns, at most
  /// `most` on each side. `k` is the row's entry of that column in the pattern.
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
    Place before, after;  // indices in the section of the nearest open rows
  };

  void link(std::int32_t row, std::int64_t k) {
    const std::int32_t col = pattern_.col_indices[k], rank = ranks_[k];
    const bool is_last = begins_[col] + rank + 1 == begins_[col + 1];
    const auto place = static_cast<Place>(rank % kNone);
    entries_[begins_[col] + rank] = {
        row, place == 0 ? kNone : static_cast<Place>(place - 1),
        is_last || place == kNone - 1 ? kNone : static_cast<Place>(place + 1)};
  }

  std::int64_t piece_begin(std::int64_t k) const {
    return begins_[pattern_.col_indices[k]] + ranks_[k] / kNone * kNone;
  }
  Entry* piece_of(std::int64_t k) { return entries_.data() + piece_begin(k); }
  const Entry* piece_of(std::int64_t k) const { return entries_.data() + piece_begin(k); }

  const RowPattern& pattern_;
  std::vector<std::int64_t> begins_;  // [columns + 1]
  std::vector<Entry> entries_;        // [entries of the pattern] by column
  std::vector<std::int32_t> ranks_;   // [entries of the pattern] by row: rank of the row in the
                                      // column
};

}  // namespace tessera
