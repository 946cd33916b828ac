// For each column the groups of rows that hold it and are not placed yet: lists that a group can be
// taken out of, and walked from a group to its nearest neighbours on either side.
//
// 8 bytes a nonzero: neighbours are places in a stretch of at most 65535 entries, and a longer
// column is cut into several, across which nobody is a neighbour.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "reorder/inverted.hpp"
#include "reorder/row_groups.hpp"

namespace tessera {

class OpenColumns {
 public:
  OpenColumns(const CsrMatrix& matrix, const RowGroups& groups) {
    Inverted holders = invert(groups.size(), matrix.cols, [&](std::int32_t group) {
      return matrix.row_cols(groups.first(group));
    });
    entries_.resize(holders.sets.size());
    constexpr std::int64_t kColGrain = 1 << 14;
    parallel_for(matrix.cols, kColGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t col = begin; col < end; ++col)
        link(holders.offsets[col], holders.offsets[col + 1], holders.sets);
    });
    offsets_ = std::move(holders.offsets);
  }

  /// Brings these columns near before they are walked: where they are is known long before.
  void prefetch(std::span<const std::int32_t> cols) const {
    for (const std::int32_t col : cols) __builtin_prefetch(entries_.data() + offsets_[col]);
  }

  /// Takes a group, open until now, out of a column. Not for two groups of a column at a time.
  void take_out(std::int32_t col, std::int32_t group) {
    const auto stretch = find(entries_.data(), col, group);
    const Entry entry = *stretch.entry;
    if (entry.before != kNone) stretch.first[entry.before].after = entry.after;
    if (entry.after != kNone) stretch.first[entry.after].before = entry.before;
  }

  /// Calls visit(other) for groups nearest to `group` in a column, on each side from the nearest
  /// on, until visit has said `most` times on that side that it was one that counts. Where `group`
  /// is out of the column by now, groups that are out too may be among them.
  template <class Visit>
  void visit_nearest(std::int32_t col, std::int32_t group, std::int32_t most, Visit visit) const {
    const auto stretch = find(entries_.data(), col, group);
    std::int32_t left = most;
    for (Place p = stretch.entry->before; left > 0 && p != kNone; p = stretch.first[p].before)
      left -= visit(stretch.first[p].group);
    left = most;
    for (Place p = stretch.entry->after; left > 0 && p != kNone; p = stretch.first[p].after)
      left -= visit(stretch.first[p].group);
  }

 private:
  using Place = std::uint16_t;
  static constexpr Place kNone = 65535;
  struct Entry {
    std::int32_t group;
    Place before, after;  // in the stretch; the nearest groups that are in the list
  };
  template <class EntryT>
  struct Stretch {
    EntryT* first;
    EntryT* entry;
  };

  void link(std::int64_t begin, std::int64_t end, const std::vector<std::int32_t>& groups) {
    for (std::int64_t k = begin; k < end; ++k) {
      const auto place = static_cast<Place>((k - begin) % kNone);
      const bool is_last = k + 1 == end || place == kNone - 1;
      entries_[k] = {groups[k], place == 0 ? kNone : static_cast<Place>(place - 1),
                     is_last ? kNone : static_cast<Place>(place + 1)};
    }
  }

  /// Where a group is in a column; `entries` is entries_, to write or to read.
  template <class EntryT>
  Stretch<EntryT> find(EntryT* entries, std::int32_t col, std::int32_t group) const {
    EntryT* const begin = entries + offsets_[col];
    EntryT* const end = entries + offsets_[col + 1];
    EntryT* const entry = std::lower_bound(
        begin, end, group, [](const Entry& e, std::int32_t wanted) { return e.group < wanted; });
    return {begin + (entry - begin) / kNone * kNone, entry};
  }

  std::vector<std::int64_t> offsets_;  // [cols + 1]
  std::vector<Entry> entries_;         // [nonzeros of the groups' first rows]
};

}  // namespace tessera
