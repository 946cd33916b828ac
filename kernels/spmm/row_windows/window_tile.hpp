// How a warp holds a row window of C: what the kernels over BitTCF have in common.
//
// The operands are swapped (C^T = B^T A^T, Acc-SpMM section 3.4 after DTC-SpMM): the 16 x 8 operand
// of m16n8k8 is two groups of columns of B, the 8 x 8 one is a TC block of A, so that a window
// needs 8 rows and not 16. Two MMAs make 32 columns, so that a lane's four are one piece of 16
// bytes.
#pragma once

#include <cstdint>

namespace tessera::window_tile {

constexpr int kWindowRows = 8;
constexpr int kTileCols = 8;   // condensed columns of a TC block, the depth of the MMA
constexpr int kWarpCols = 32;  // columns of B and C that two MMAs have
constexpr int kMmaCols = 16;   // of them, per MMA
static_assert(kWarpCols % kMmaCols == 0, "a warp does whole MMAs");

/// Groups of 32 columns in C [rows x n].
constexpr std::int64_t num_col_chunks(std::int64_t n) { return (n + kWarpCols - 1) / kWarpCols; }

/// Column of the 32 that row `mma_row` of MMA `mma` stands for. Lane group g = mma_row % 8 holds
/// columns 4g to 4g + 3, so that it loads and stores them as one 16-byte piece.
constexpr int col_of_mma_row(int mma, int mma_row) {
  return 4 * (mma_row % 8) + 2 * mma + mma_row / 8;
}

}  // namespace tessera::window_tile
