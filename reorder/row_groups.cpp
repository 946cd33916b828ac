#include "reorder/row_groups.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

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

/// For each rank in the base order, the rank of the first row with the same columns. [rows]
std::vector<std::int32_t> find_leaders(const CsrMatrix& matrix,
                                       std::span<const std::int32_t> base) {
  std::vector<Row> rows;
  rows.reserve(base.size());
  for (std::int32_t rank = 0; rank < std::ssize(base); ++rank)
    rows.push_back({hash_of(matrix.row_cols(base[rank])), rank});
  std::ranges::sort(rows, {}, [](const Row& row) { return std::pair(row.hash, row.rank); });
  // Different rows with the same hash stay separate: a group may be missed, but none is wrong.
  std::vector<std::int32_t> leaders(base.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int32_t rank = rows[i].rank;
    leaders[rank] = rank;
    if (i == 0 || rows[i].hash != rows[i - 1].hash) continue;
    const std::int32_t leader = leaders[rows[i - 1].rank];
    if (std::ranges::equal(matrix.row_cols(base[rank]), matrix.row_cols(base[leader])))
      leaders[rank] = leader;
  }
  return leaders;
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
  const std::vector<std::int32_t> leaders = find_leaders(matrix, base);
  std::vector<std::int32_t> group_of(base.size());
  for (std::int32_t rank = 0; rank < size; ++rank) {
    if (leaders[rank] == rank) groups.offsets.push_back(0);
    // A leader has a lower rank than the others of its group.
    group_of[rank] = leaders[rank] == rank ? groups.size() - 1 : group_of[leaders[rank]];
    ++groups.offsets[group_of[rank] + 1];
  }
  std::partial_sum(groups.offsets.begin(), groups.offsets.end(), groups.offsets.begin());
  std::vector<std::int32_t> next(groups.offsets.begin(), groups.offsets.end() - 1);
  groups.rows.resize(base.size());
  for (std::int32_t rank = 0; rank < size; ++rank) groups.rows[next[group_of[rank]]++] = base[rank];
  return groups;
}

}  // namespace tessera
