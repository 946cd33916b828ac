// Row windows two by two: the free part of an order whose windows are filled. Which two windows
// stand next to each other changes no TC block of their height, but those of twice the height.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "reorder/watch.hpp"

namespace tessera {

struct PairRule {
  std::int32_t window_rows = 8;
  std::int32_t partners = 8;     // windows that a window may end up with: those that save most
  std::int32_t candidates = 32;  // windows that a column offers, on either side of the window's own
};

/// Old row indices in `order` with whole windows moved so that two that save TC blocks together are
/// neighbours; pairs stay in the order of their first windows, what is left over follows. Any
/// number of threads gives the same. Time O(nnz candidates), memory 8 bytes a nonzero.
std::vector<std::int32_t> pair_windows(const CsrMatrix& matrix,
                                       const std::vector<std::int32_t>& order, const PairRule& rule,
                                       Watch& watch);

}  // namespace tessera
