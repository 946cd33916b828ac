// Row windows that grow at many places at once: chains (row_chain.hpp) that share their rows.
//
// A number of fronts, which depends on the rows alone, grow windows in rounds. In a round each
// front chooses rows for its next windows as a chain does, among all rows of the stretch that are
// open at the start of the round; then a row goes to the first front that chose it, and a front
// keeps what it chose up to the first row that it lost. So the result is the same at any number of
// threads, and unlike chains of stretches of their own, fronts find similar rows across their
// borders.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "reorder/row_chain.hpp"
#include "reorder/watch.hpp"

namespace tessera {

/// The old indices of the rows in their new order, [rows]; `base` [rows] has every row once. Rows
/// of windows that were not completed come last. When stopped, rows not placed yet follow in base
/// order. Stretches come one after the other; of several, none has more than half of the nonzeros
/// and a window. Time O(nnz candidates); memory 4 bytes per row, 16 per nonzero and 60 per row of
/// one stretch and, for each thread, 4 bytes per row and column of it.
std::vector<std::int32_t> grow_windows(const CsrMatrix& matrix,
                                       const std::vector<std::int32_t>& base, const ChainRule& rule,
                                       Watch& watch);

}  // namespace tessera
