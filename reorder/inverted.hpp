// Inverting sets of columns (rows, row windows) to the sets that hold each column.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "formats/base/parallel.hpp"
#include "formats/base/raw_vector.hpp"

namespace tessera {

/// The sets that hold each column, ascending.
struct Inverted {
  std::vector<std::int64_t> offsets{0};  // [cols + 1]
  RawVector<std::int32_t> sets;          // [offsets.back()]

  std::span<const std::int32_t> of(std::int32_t col) const {
    return {sets.data() + offsets[col], static_cast<std::size_t>(offsets[col + 1] - offsets[col])};
  }
};

/// The part of an ascending list nearest to `centre`: at most `most` entries on each side.
inline std::span<const std::int32_t> nearest(std::span<const std::int32_t> list,
                                             std::int32_t centre, std::int32_t most) {
  if (static_cast<std::int64_t>(list.size()) <= 2 * std::int64_t{most}) return list;
  const auto place = std::ranges::lower_bound(list, centre) - list.begin();
  const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(0, place - most);
  const auto end = std::min<std::ptrdiff_t>(std::ssize(list), place + most);
  return list.subspan(begin, end - begin);
}

/// The number of chunks of sets that are counted side by side. A chunk has a count of four bytes
/// for each column. Every thread has a chunk, unless all counts then take more than 64 MB and more
/// than four bytes an entry: there are fewer chunks then.
inline std::int64_t counting_chunks(std::int64_t entries, std::int64_t cols, int threads) {
  constexpr std::int64_t kCounts = (64 << 20) / sizeof(std::int32_t);
  return std::clamp<std::int64_t>(std::max(entries, kCounts) / std::max<std::int64_t>(1, cols), 1,
                                  std::max(1, threads));
}

/// Ranks the sets [0, sets) that hold each column. make_reader() returns what one thread reads sets
/// with: reader(set, visit) calls visit(col) for the distinct columns of a set, in the same order
/// each time; all sets have `size` of them. Returns the offsets of the columns' lists [cols + 1]
/// and calls ranked(set, i, place, rank) for the column i of a set, with the set's rank in the
/// column's list and its place in all lists. `begin_lists(size)` is called before. Parallel: sets
/// are counted in chunks, see counting_chunks.
template <class MakeReader, class Begin, class Ranked>
std::vector<std::int64_t> rank_read_sets(std::int32_t sets, std::int32_t cols, std::int64_t size,
                                         MakeReader make_reader, Begin begin_lists, Ranked ranked) {
  const std::int64_t chunks = counting_chunks(size, cols, num_threads());
  const std::int64_t chunk_sets = std::max<std::int64_t>(1, (sets + chunks - 1) / chunks);

  // First the number of sets of a column in a chunk, then the rank of the next one.
  using Next = std::vector<std::int32_t>;  // [cols]
  std::vector<Next> next(chunks);
  const auto for_each_chunk = [&](auto body) {
    parallel_for(sets, chunk_sets, [&](std::int64_t begin, std::int64_t end) {
      Next& mine = next[begin / chunk_sets];
      mine.resize(cols, 0);
      auto reader = make_reader();
      for (auto set = static_cast<std::int32_t>(begin); set < end; ++set) {
        std::int64_t i = 0;
        reader(set, [&](std::int32_t col) { body(mine[col], col, set, i++); });
      }
    });
  };
  for_each_chunk([](std::int32_t& count, auto...) { ++count; });

  std::vector<std::int64_t> offsets(std::size_t(cols) + 1, 0);
  constexpr std::int64_t kCols = 1 << 14;
  parallel_for(cols, kCols, [&](std::int64_t begin, std::int64_t end) {
    for (Next& chunk : next) {
      if (chunk.empty()) continue;  // sets are divided with nothing left for it
      for (std::int64_t col = begin; col < end; ++col)
        offsets[col + 1] += std::exchange(chunk[col], static_cast<std::int32_t>(offsets[col + 1]));
    }
  });
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  begin_lists(size);
  for_each_chunk([&](std::int32_t& rank, std::int32_t col, std::int32_t set, std::int64_t i) {
    ranked(set, i, offsets[col] + rank, rank);
    ++rank;
  });
  return offsets;
}

/// The number of columns of all sets.
template <class ColsOf>
std::int64_t total_size(std::int32_t sets, const ColsOf& cols_of) {
  std::int64_t size = 0;
  for (std::int32_t set = 0; set < sets; ++set) size += std::ssize(cols_of(set));
  return size;
}

/// Makes readers of sets whose columns cols_of(set) returns, which outlives them.
template <class ColsOf>
auto reader_of(const ColsOf& cols_of) {
  return [&cols_of] {
    return [&cols_of](std::int32_t set, auto visit) {
      for (const std::int32_t col : cols_of(set)) visit(col);
    };
  };
}

/// Ranks sets whose distinct columns cols_of(set) returns, see rank_read_sets.
template <class ColsOf, class Begin, class Ranked>
std::vector<std::int64_t> rank_sets(std::int32_t sets, std::int32_t cols, ColsOf cols_of,
                                    Begin begin_lists, Ranked ranked) {
  return rank_read_sets(sets, cols, total_size(sets, cols_of), reader_of(cols_of), begin_lists,
                        ranked);
}

/// Inverts the sets [0, sets), see rank_read_sets.
template <class MakeReader>
Inverted invert_read_sets(std::int32_t sets, std::int32_t cols, std::int64_t size,
                          MakeReader make_reader) {
  Inverted inverted;
  inverted.offsets = rank_read_sets(
      sets, cols, size, make_reader, [&](std::int64_t entries) { inverted.sets.resize(entries); },
      [&](std::int32_t set, std::int64_t, std::int64_t place, std::int32_t) {
        inverted.sets[place] = set;
      });
  return inverted;
}

/// Inverts the sets [0, sets), see rank_sets.
template <class ColsOf>
Inverted invert(std::int32_t sets, std::int32_t cols, ColsOf cols_of) {
  return invert_read_sets(sets, cols, total_size(sets, cols_of), reader_of(cols_of));
}

}  // namespace tessera
