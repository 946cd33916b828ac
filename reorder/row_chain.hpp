// Chains of rows: the next one is the row that has most columns in common with those just placed.
//
// The second step of Acc-SpMM's Algorithm 1, and the first of our own order. A large matrix is cut
// into stretches of a base order that has kept similar rows together, each with a chain of its own:
// threads share them out, and the working set of each fits the caches.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "reorder/watch.hpp"

namespace tessera {

struct ChainRule {
  /// Rows that are compared with: all of the current row window of this height (its first row: with
  /// those that have come last in the window before); 1 is the last row alone.
  std::int32_t window_rows = 1;
  /// A column offers so many open rows on each side of the row placed, the nearest in base order.
  /// Rows of more than 256 columns are offered fewer by each, down to four.
  std::int32_t candidates = 32;
  /// What a column in common is worth when every column of a row costs one: large, and of rows with
  /// as many in common the shorter comes first; small, and a long row needs more of them. 0:
  /// columns cost nothing. Of equal ones the first in base order comes first.
  std::int64_t common_weight = 0;
  /// Rows with the same columns are placed as one.
  bool merge_identical = true;
  /// Rows of a stretch of the base order, about; 0: a single one.
  std::int64_t stretch_rows = 0;
};

/// Old indices of the rows; `base` has every row once. A chain that finds no row with a column in
/// common goes on with the next one in base order. Cut short, rows not placed yet follow in base
/// order. Time O(nnz candidates); memory 4 bytes a row and, for each thread, 4 bytes a column, 20 a
/// nonzero and 60 a row of its stretch.
std::vector<std::int32_t> chain_rows(const CsrMatrix& matrix, const std::vector<std::int32_t>& base,
                                     const ChainRule& rule, Watch& watch);

}  // namespace tessera
