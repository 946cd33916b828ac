// Pairing row windows, the freedom that remains when the windows of an order are filled: the choice
// of neighbours does not change TC blocks of the windows' height, but those of twice the height.
#pragma once

#include <cstdint>
#include <vector>

#include "reorder/row_pattern.hpp"
#include "reorder/watch.hpp"

namespace tessera {

struct PairRule {
  std::int32_t window_rows = 8;
  std::int32_t partners = 8;     // windows considered for a window: those that save most
  std::int32_t candidates = 16;  // windows that a column offers on each side of the window's own
};

/// The rows of the pattern in `order`, with whole windows moved so that two windows that save TC
/// blocks together are neighbours; pairs are in the order of their first windows, unpaired windows
/// follow. The result is the same at any number of threads. Time O(nnz candidates), memory 8 bytes
/// per nonzero.
std::vector<std::int32_t> pair_windows(const RowPattern& pattern,
                                       const std::vector<std::int32_t>& order, const PairRule& rule,
                                       Watch& watch);

}  // namespace tessera
