// Chains of rows: the next row is the one with most columns in common with the rows just placed.
//
// This is the second step of Acc-SpMM's Algorithm 1 and the first of our own order. A large matrix
// is cut into stretches of a base order that keeps similar rows together, each with a chain of its
// own: threads process different stretches, and the working set of each fits the caches.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "reorder/watch.hpp"

namespace tessera {

struct ChainRule {
  /// The height of the row window whose rows a candidate is compared with (the first row of a
  /// window with the last rows of the previous window); 1 compares with the last row alone.
  std::int32_t window_rows = 1;
  /// The number of open rows that a column offers on each side of the placed row, the nearest in
  /// base order. A row of more than 256 columns is offered fewer per column, down to four.
  std::int32_t candidates = 32;
  /// The worth of a common column when every column of a row costs one. With a large weight the
  /// shorter of two rows with equally many common columns comes first; with a small one a long row
  /// needs more of them. 0: columns cost nothing. Ties go to the first in base order.
  std::int64_t common_weight = 0;
  /// Rows with the same columns are placed as one.
  bool merge_identical = true;
  /// The approximate number of rows of a stretch of the base order; 0: a single stretch.
  std::int64_t stretch_rows = 0;
};

/// The old indices of the rows in their new order, [rows]; `base` [rows] has every row once. Where
/// no row has a column in common the next one in base order follows. When stopped, rows not placed
/// yet follow in base order. Time O(nnz candidates); memory 4 bytes per row and, for each thread, 4
/// bytes per column, 20 per nonzero and 60 per row of its stretch.
std::vector<std::int32_t> chain_rows(const CsrMatrix& matrix, const std::vector<std::int32_t>& base,
                                     const ChainRule& rule, Watch& watch);

}  // namespace tessera
