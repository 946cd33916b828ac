// The layout of whole rows of B in a warp's shared memory, and which rows one copy instruction
// brings.
#pragma once

#include "kernels/spmm/row_windows/window_tile.hpp"

namespace tessera::row_windows {

constexpr int kRowPad = 8;  // floats after a staged row of B

/// Floats from one staged row of B to the next: `groups` groups of 32 columns and a pad, with which
/// the eight lanes that read vectors of four rows at once find them in different banks.
TESSERA_HOST_DEVICE constexpr int row_pitch(int groups) {
  return groups * window_tile::kWarpCols + kRowPad;
}

/// Floats of a stage: the rows of B of one TC block.
TESSERA_HOST_DEVICE constexpr int stage_floats(int groups) {
  return window_tile::kTileCols * row_pitch(groups);
}

/// Rows of B that one copy instruction of a warp brings, a vector of 16 bytes a lane.
TESSERA_HOST_DEVICE constexpr int rows_per_copy(int groups) {
  return 32 * 4 / (groups * window_tile::kWarpCols);
}

/// Wavefronts of a shared-memory read of 16 bytes a lane that has no bank conflicts.
constexpr int kWideReadWavefronts = 4;

}  // namespace tessera::row_windows
