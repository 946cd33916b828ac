// For each column of some rows, the list of the rows that hold it and are not placed yet. A list
// can be walked from a row to its nearest open rows on each side.
//
// A placed row stays in its lists until a walk meets it: then the walk's last open entry is linked
// past it. So rows can be placed, or lists walked, by several threads, and since all walks between
// two placements find the same next open entry, what they visit does not depend on the threads.
//
// Links are 16-bit indices into a section of at most 65535 entries; a longer column has several
// sections, which are not linked with each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "formats/base/parallel.hpp"
#include "formats/base/raw_vector.hpp"
#include "reorder/inverted.hpp"
#include "reorder/row_pattern.hpp"

namespace tessera {

class OpenColumns {
 public:
  explicit OpenColumns(const RowPattern& pattern) : pattern_(pattern), placed_(pattern.rows, 0) {
    begins_ = rank_sets(
        pattern.rows, pattern.cols, [&](std::int32_t row) { return pattern.row_cols(row); },
        [&](std::int64_t entries) {
          entries_.resize(entries);
          ranks_.resize(entries);
        },
        [&](std::int32_t row, std::int64_t i, std::int64_t place, std::int32_t rank) {
          entries_[place].row = row;
          ranks_[pattern.row_offsets[row] + i] = rank;
        });
    constexpr std::int64_t kCols = 1 << 12;
    parallel_for(pattern.cols, kCols, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t col = begin; col < end; ++col) link(col);
    });
  }

  /// Removes a row from the lists of all its columns. No thread may walk a list meanwhile.
  void place(std::int32_t row) { placed_[row] = 1; }
  bool is_open(std::int32_t row) const { return placed_[row] == 0; }

  /// Calls visit(other) for the open rows nearest to a row in one of its columns, until `most` on
  /// each side have been visited that visit() returned true for. `k` is the row's entry of that
  /// column in the pattern.
  template <class Visit>
  void visit_nearest(std::int64_t k, std::int32_t most, Visit visit) {
    const std::int64_t section = begins_[pattern_.col_indices[k]] + ranks_[k] / kNone * kNone;
    const auto place = static_cast<Place>(ranks_[k] % kNone);
    walk(section, place, &Entry::before, most, visit);
    walk(section, place, &Entry::after, most, visit);
  }

 private:
  using Place = std::uint16_t;
  static constexpr Place kNone = 65535;
  struct Entry {
    std::int32_t row;
    Place before, after;  // indices in the section of the nearest rows that may be open
  };

  void link(std::int64_t col) {
    const std::int64_t length = begins_[col + 1] - begins_[col];
    for (std::int64_t rank = 0; rank < length; ++rank) {
      const std::int64_t place = rank % kNone;
      const bool is_last = rank + 1 == length || place == kNone - 1;
      Entry& entry = entries_[begins_[col] + rank];
      entry.before = place == 0 ? kNone : static_cast<Place>(place - 1);
      entry.after = is_last ? kNone : static_cast<Place>(place + 1);
    }
  }

  template <class Visit>
  void walk(std::int64_t section, Place from, Place Entry::*side, std::int32_t most, Visit visit) {
    Entry* const entries = entries_.data() + section;
    const auto next = [&](Place place) { return std::atomic_ref(entries[place].*side); };
    for (std::int32_t visited = 0; visited < most;) {
      const Place first = next(from).load(std::memory_order_relaxed);
      Place place = first;
      while (place != kNone && placed_[entries[place].row] != 0)
        place = next(place).load(std::memory_order_relaxed);
      if (place != first) next(from).store(place, std::memory_order_relaxed);
      if (place == kNone) return;
      visited += visit(entries[place].row);
      from = place;
    }
  }

  const RowPattern& pattern_;
  std::vector<std::int64_t> begins_;  // [columns + 1]
  RawVector<Entry> entries_;          // [entries of the pattern] by column
  RawVector<std::int32_t> ranks_;     // [entries of the pattern] by row: rank of the row in the
                                      // column
  std::vector<std::uint8_t> placed_;  // [rows]
};

}  // namespace tessera
