// Chains of rows: the next one is the row that has most columns in common with those just placed.
//
// The second step of Acc-SpMM's Algorithm 1 and of our own order. One chain is the paper's.
// Several, each from its own place in the base order, grow at a time: in rounds, in which each goes
// on alone as if the others stood still, after which a row that two have taken stays with the first
// of them. That depends on the number of chains and on nothing else, so threads share them out as
// they like.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "reorder/row_groups.hpp"
#include "reorder/watch.hpp"

namespace tessera {

struct ChainRule {
  /// Rows that are compared with: all of the current row window of this height (its first row: with
  /// those of the window before that have come last); 1 is the last row alone.
  std::int32_t window_rows = 1;
  /// A column offers so many open rows on each side of the row placed, the nearest in base order.
  std::int32_t candidates = 32;
  /// What a column in common is worth when every column of a row costs one: large, and of rows with
  /// as many in common the shorter comes first; small, and a long row needs more of them. 0:
  /// columns cost nothing. Of equal ones the first in base order comes first.
  std::int64_t common_weight = 0;
  /// Chains; 0: one for every 16384 groups, at most 16.
  std::int32_t chains = 1;
};

/// Old indices of the rows. Groups are placed whole, and a chain that finds no row with a column in
/// common goes on with the next one in base order from where it started. Cut short, it ends with
/// the groups not placed yet, in base order. Time O(nnz (candidates + log of a column's length));
/// memory 12 bytes a nonzero, 20 a row and 8 a column, and for each thread 8 a row and 4 a column.
std::vector<std::int32_t> chain_rows(const CsrMatrix& matrix, const RowGroups& groups,
                                     const ChainRule& rule, Watch& watch);

}  // namespace tessera
