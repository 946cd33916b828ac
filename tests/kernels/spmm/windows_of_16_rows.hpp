// The active columns of a matrix's windows of 16 rows, by definition.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// The columns of a window in which one of its rows has a nonzero, ascending.
inline std::vector<std::int32_t> active_cols(const CsrMatrix& a, std::int64_t window) {
  std::set<std::int32_t> columns;
  for (std::int64_t row = 16 * window; row < std::min<std::int64_t>(16 * window + 16, a.rows);
       ++row)
    columns.insert(a.row_cols(row).begin(), a.row_cols(row).end());
  return {columns.begin(), columns.end()};
}

}  // namespace tessera
