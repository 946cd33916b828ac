// Swaps of rows between row windows that leave fewer TC blocks: the refinement of our own order.
#pragma once

#include <cstdint>
#include <vector>

#include "reorder/row_pattern.hpp"
#include "reorder/watch.hpp"

namespace tessera {

struct SwapRule {
  std::int32_t window_rows = 8;  // at most 32
  std::int32_t passes = 2;       // over all windows
  std::int32_t partners = 3;     // windows that a row may look at: those with most of its columns
  std::int32_t candidates = 8;   // windows that a column offers, on either side of the row's own
};

/// Changes `order` (rows of the pattern) and returns how many swaps were made. The last pass never
/// adds a TC block; those before it may, for fewer active columns. A window is paired with those
/// where both have a row to gain by, best pairs first; all h * h swaps of a pair are weighed at
/// once and the best is made until none is left. Any number of threads gives the same. Time for a
/// pass O(nnz candidates), memory 8 bytes a nonzero, and for each thread 8 a column and 4 a window.
std::int64_t swap_rows(const RowPattern& pattern, std::vector<std::int32_t>& order,
                       const SwapRule& rule, Watch& watch);

/// The same between the two windows of each pair of neighbours, the first and the second, the third
/// and the fourth: tiles of twice the height stay as they are.
std::int64_t swap_neighbours(const RowPattern& pattern, std::vector<std::int32_t>& order,
                             std::int32_t window_rows, Watch& watch);

}  // namespace tessera
