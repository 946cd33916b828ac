// For each column the groups of rows that hold it and are not placed yet: lists that a group can be
// taken out of, and walked from a group to its nearest neighbours on either side.
//
// 12 bytes a nonzero: neighbours are places in a stretch of at most 65535 entries, and a longer
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
    const auto cols_of = [&](std::int32_t group) { return matrix.row_cols(groups.first(group)); };
    starts_.resize(std::size_t(groups.size()) + 1, 0);
    for (std::int32_t group = 0; group < groups.size(); ++group)
      starts_[group + 1] = starts_[group] + std::ssize(cols_of(group));
    offsets_ = list_by_column(
        groups.size(), matrix.cols, cols_of,
        [&](std::int64_t size) {
          entries_.resize(size);
          places_.resize(size);
        },
        [&](std::int32_t group, std::int32_t i, std::int64_t begin, std::int32_t rank) {
          entries_[begin + rank].group = group;
          places_[starts_[group] + i] = rank;
        });
    constexpr std::int64_t kColGrain = 1 << 14;
    parallel_for(matrix.cols, kColGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t col = begin; col < end; ++col) link(offsets_[col], offsets_[col + 1]);
    });
  }

  /// Takes a group, open until now, out of the i-th of its columns, `col`. Not for two groups of a
  /// column at a time.
  void take_out(std::int32_t group, std::int32_t i, std::int32_t col) {
    const auto [first, entry] = find(entries_.data(), group, i, col);
    if (entry->before != kNone) first[entry->before].after = entry->after;
    if (entry->after != kNone) first[entry->after].before = entry->before;
  }

  /// Calls visit(other) for groups nearest to `group` in the i-th of its columns, `col`, on each
  /// side from the nearest on, until visit has said `most` times on that side that it was one that
  /// counts. Where `group` is out of the column by now, groups that are out too may be among them.
  template <class Visit>
  void visit_nearest(std::int32_t group, std::int32_t i, std::int32_t col, std::int32_t most,
                     Visit visit) const {
    const auto [first, entry] = find(entries_.data(), group, i, col);
    std::int32_t left = most;
    for (Place p = entry->before; left > 0 && p != kNone; p = first[p].before)
      left -= visit(first[p].group);
    left = most;
    for (Place p = entry->after; left > 0 && p != kNone; p = first[p].after)
      left -= visit(first[p].group);
  }

 private:
  using Place = std::uint16_t;
  static constexpr Place kNone = 65535;
  struct Entry {
    std::int32_t group;
    Place before, after;  // in the stretch; the nearest groups that are in the list
  };
  template <class EntryT>
  struct Found {
    EntryT* first;  // of the stretch
    EntryT* entry;
  };

  void link(std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      const auto place = static_cast<Place>((k - begin) % kNone);
      const bool is_last = k + 1 == end || place == kNone - 1;
      entries_[k].before = place == 0 ? kNone : static_cast<Place>(place - 1);
      entries_[k].after = is_last ? kNone : static_cast<Place>(place + 1);
    }
  }

  /// `entries` is entries_, to write or to read.
  template <class EntryT>
  Found<EntryT> find(EntryT* entries, std::int32_t group, std::int32_t i, std::int32_t col) const {
    EntryT* const begin = entries + offsets_[col];
    const std::int32_t place = places_[starts_[group] + i];
    return {begin + place / kNone * kNone, begin + place};
  }

  std::vector<std::int64_t> offsets_;  // [cols + 1]
  std::vector<Entry> entries_;         // [nonzeros of the groups' first rows] by column
  std::vector<std::int64_t> starts_;   // [groups + 1]
  std::vector<std::int32_t> places_;   // [entries] by group: where in its column an entry is
};

}  // namespace tessera
