// How a warp of the kernels over BitTCF holds a row window of C.
//
// The operands are swapped (C^T = B^T A^T, Acc-SpMM section 3.4 after DTC-SpMM): the 16 x 8 operand
// of m16n8k8 is two groups of columns of B, the 8 x 8 one is a TC block of A, so that a window
// needs 8 rows and not 16. Two MMAs compute 32 columns, so that a lane's four are one vector of 16
// bytes.
#pragma once

#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::window_tile {

constexpr int kWindowRows = 8;
constexpr int kTileCols = 8;  // condensed columns of a TC block, the depth of the MMA
constexpr int kTileElements = kWindowRows * kTileCols;
constexpr int kWarpCols = 32;                // columns of B and C of a group of MMAs
constexpr int kMmaCols = 16;                 // columns of one MMA
constexpr int kMmas = kWarpCols / kMmaCols;  // of a group and a TC block
static_assert(kWarpCols % kMmaCols == 0, "a group is a whole number of MMAs");

/// The number of groups of 32 columns in C [rows x n].
constexpr std::int64_t num_col_chunks(std::int64_t n) { return (n + kWarpCols - 1) / kWarpCols; }

/// The column of the 32 that row `mma_row` of MMA `mma` stands for. Lanes 4g to 4g + 3, which hold
/// MMA rows g and g + 8, have columns 4g to 4g + 3: they load and store them as one vector of 16
/// bytes.
TESSERA_HOST_DEVICE constexpr int col_of_mma_row(int mma, int mma_row) {
  return 4 * (mma_row % 8) + 2 * mma + mma_row / 8;
}

}  // namespace tessera::window_tile
