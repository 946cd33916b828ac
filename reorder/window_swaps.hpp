// Swaps of rows between row windows that leave fewer TC blocks, the refinement of our own order.
#pragma once

#include <cstdint>
#include <vector>

#include "reorder/row_pattern.hpp"
#include "reorder/watch.hpp"

namespace tessera {

struct SwapRule {
  std::int32_t window_rows = 8;  // at most 32
  std::int32_t passes = 2;       // over all windows
  std::int32_t partners = 3;     // windows considered for a row: those with most of its columns
  std::int32_t candidates = 8;   // windows that a column offers on each side of the row's own
};

/// Changes `order` [rows of the pattern] and returns the number of swaps. The last pass never adds
/// a TC block; earlier ones may, for fewer active columns. Two windows are paired when each has a
/// row that would gain in the other, best pairs first; all h * h swaps of a pair are compared, and
/// the best is made until none gains. The result is the same at any number of threads. Time of a
/// pass O(nnz candidates); memory 8 bytes per nonzero and, for each thread, 8 per column and 4 per
/// window.
std::int64_t swap_rows(const RowPattern& pattern, std::vector<std::int32_t>& order,
                       const SwapRule& rule, Watch& watch);

/// Swaps rows only within pairs of neighbouring windows, the first and the second, the third and
/// the fourth, so that tiles of twice the height do not change.
std::int64_t swap_neighbours(const RowPattern& pattern, std::vector<std::int32_t>& order,
                             std::int32_t window_rows, Watch& watch);

}  // namespace tessera
