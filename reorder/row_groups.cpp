#include "reorder/row_groups.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>
#include <utility>

#include "formats/base/parallel.hpp"
#include "formats/base/parallel_sort.hpp"
#include "formats/base/raw_vector.hpp"
#include "formats/base/shared_grain.hpp"

namespace tessera {
namespace {

struct Row {
  std::uint64_t hash;
  std::int32_t rank;
};

std::uint64_t hash_of(std::span<const std::int32_t> cols) {
  // One multiplication per column suffices: rows with equal hashes are compared.
  std::uint64_t hash = cols.size();
  for (const std::int32_t col : cols)
    hash = std::rotl((hash ^ static_cast<std::uint32_t>(col)) * 0x9e3779b97f4a7c15u, 27);
  return hash;
}

/// Where a row is among the rows with its columns.
struct Place {
  std::int32_t leader;  // rank in the base order of the first of them
  std::int32_t index;   // its own index among them
};

/// The ranks of a parallel chunk.
std::int64_t grain_of(std::int64_t ranks) { return shared_grain(ranks, 64, 512); }

/// The place of each rank in the base order. [rows]
RawVector<Place> find_places(const CsrMatrix& matrix, std::span<const std::int32_t> base) {
  const auto size = std::ssize(base);
  RawVector<Row> rows(base.size());
  parallel_for(size, grain_of(size), [&](std::int64_t begin, std::int64_t end) {
    for (auto rank = static_cast<std::int32_t>(begin); rank < end; ++rank)
      rows[rank] = {hash_of(matrix.row_cols(base[rank])), rank};
  });
  parallel_sort(rows, [](const Row& a, const Row& b) {
    return std::pair(a.hash, a.rank) < std::pair(b.hash, b.rank);
  });
  // Different rows with the same hash stay separate: a group may be missed, but none is wrong.
  RawVector<Place> places(base.size());
  const auto place_run = [&](std::int64_t first) {
    Place place{rows[first].rank, 0};
    for (std::int64_t i = first; i < size && rows[i].hash == rows[first].hash; ++i, ++place.index) {
      const std::int32_t rank = rows[i].rank;
      if (rank != place.leader &&
          !std::ranges::equal(matrix.row_cols(base[rank]), matrix.row_cols(base[place.leader])))
        place = {rank, 0};
      places[rank] = place;
    }
  };
  parallel_for(size, grain_of(size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      if (i == 0 || rows[i].hash != rows[i - 1].hash) place_run(i);
  });
  return places;
}

}  // namespace

RowGroups group_rows(const CsrMatrix& matrix, std::span<const std::int32_t> base, bool merge) {
  const auto size = static_cast<std::int32_t>(base.size());
  RowGroups groups;
  if (!merge) {
    groups.rows.assign(base.begin(), base.end());
    for (std::int32_t rank = 0; rank < size; ++rank) groups.offsets.push_back(rank + 1);
    return groups;
  }
  const RawVector<Place> places = find_places(matrix, base);
  RawVector<std::int32_t> group_of(base.size());  // at the ranks of leaders
  std::int32_t count = 0;
  for (std::int32_t rank = 0; rank < size; ++rank)
    if (places[rank].leader == rank) group_of[rank] = count++;
  groups.offsets.resize(std::size_t(count) + 1, 0);
  const auto for_each_rank = [&](auto body) {
    parallel_for(size, grain_of(size), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t rank = begin; rank < end; ++rank)
        body(rank, group_of[places[rank].leader], places[rank].index);
    });
  };
  for_each_rank([&](std::int64_t, std::int32_t group, std::int32_t) {
    std::atomic_ref(groups.offsets[group + 1]).fetch_add(1, std::memory_order_relaxed);
  });
  std::partial_sum(groups.offsets.begin(), groups.offsets.end(), groups.offsets.begin());
  groups.rows.resize(base.size());
  for_each_rank([&](std::int64_t rank, std::int32_t group, std::int32_t index) {
    groups.rows[groups.offsets[group] + index] = base[rank];
  });
  return groups;
}

}  // namespace tessera
