// How acc_spmm cuts C up; its host and its device half both go by this.
//
// One warp computes an 8-row window of C for 32 columns. The operands are swapped (C^T = B^T A^T,
// Acc-SpMM section 3.4 after DTC-SpMM): the 16 x 8 operand of m16n8k8 is two groups of columns of
// B, the 8 x 8 one is a TC block of A, so that a window needs 8 rows and not 16.
#pragma once

#include <cstdint>

namespace tessera::acc_spmm {

constexpr int kWindowRows = 8;
constexpr int kTileCols = 8;   // condensed columns of a TC block, the depth of the MMA
constexpr int kWarpCols = 32;  // columns of B and C per warp
constexpr int kMmaCols = 16;   // of them, per MMA
constexpr int kWarps = 4;      // per thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kRegisters = 64;  // of a thread, as they are allocated: in eights
static_assert(kWarpCols % kMmaCols == 0, "a warp does whole MMAs");

/// Warps needed for C [rows x n]; warp w does window w / chunks, columns 32 (w % chunks) on.
constexpr std::int64_t num_col_chunks(std::int64_t n) { return (n + kWarpCols - 1) / kWarpCols; }

/// Column of the warp's 32 that row `mma_row` of MMA `mma` stands for. Lane group g = mma_row % 8
/// holds columns 4g to 4g + 3, so that it loads and stores them as one 16-byte piece.
constexpr int col_of_mma_row(int mma, int mma_row) {
  return 4 * (mma_row % 8) + 2 * mma + mma_row / 8;
}

}  // namespace tessera::acc_spmm
