// Groups of rows with the same columns, which belong next to each other in any order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// Groups are numbered by their first row in a base order, and the rows of a group keep that order.
struct RowGroups {
  std::vector<std::int32_t> rows;        // [matrix.rows] group by group
  std::vector<std::int32_t> offsets{0};  // [groups + 1]

  std::int32_t size() const { return static_cast<std::int32_t>(offsets.size()) - 1; }
  std::int32_t first(std::int32_t group) const { return rows[offsets[group]]; }
  /// The first row of each group. [groups]
  std::vector<std::int32_t> firsts() const {
    std::vector<std::int32_t> firsts;
    firsts.reserve(offsets.size());
    for (std::int32_t group = 0; group < size(); ++group) firsts.push_back(first(group));
    return firsts;
  }
  std::span<const std::int32_t> of(std::int32_t group) const {
    return {rows.data() + offsets[group],
            static_cast<std::size_t>(offsets[group + 1] - offsets[group])};
  }
};

/// Groups the rows in `base`. With merge = false every row is a group of its own.
RowGroups group_rows(const CsrMatrix& matrix, std::span<const std::int32_t> base, bool merge);

}  // namespace tessera
