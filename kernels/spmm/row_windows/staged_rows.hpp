// Where a warp's shared memory has rows of B that were copied whole.
#pragma once

#include "kernels/spmm/row_windows/window_tile.hpp"

namespace tessera::row_windows {

/// A stage: eight rows of B, of 32 columns a group and eight floats between rows, so that the eight
/// lanes that fetch pieces of four rows at once find them in different banks.
constexpr int row_pitch(int groups) { return groups * window_tile::kWarpCols + 8; }

}  // namespace tessera::row_windows
