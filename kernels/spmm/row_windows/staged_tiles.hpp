// The schedule of windows_spmm and shares_spmm within a thread block: its warps compute adjacent
// columns of C, and TC blocks of BitTCF pass through stages in shared memory.
//
// A warp has stages of its own, so that its copies need no barrier of the thread block. A stage
// holds one TC block: eight rows of B, 32 columns each, the values and the bitmap.
#pragma once

#include <cstdint>

#include "kernels/spmm/row_windows/window_tile.hpp"

namespace tessera::staged_tiles {

constexpr int kStages = 4;  // of a warp: one is multiplied, three are being copied
constexpr int kAhead = kStages - 1;
constexpr int kWarps = 4;  // of a thread block, next to each other in C
constexpr int kThreads = 32 * kWarps;
constexpr int kBlockCols = kWarps * window_tile::kWarpCols;  // columns of C of a pass
constexpr int kRegisters = 56;                               // allocated for a thread

/// The first of the 32 columns of C that a warp computes in a pass.
TESSERA_HOST_DEVICE constexpr std::int64_t first_col(int warp, std::int64_t pass) {
  return pass * kBlockCols + warp * window_tile::kWarpCols;
}

/// Rows of B begin at multiples of 32 bytes in every stage: cp.async reads a sector twice that it
/// writes to two different 32 bytes.
struct alignas(32) Stage {
  float b[window_tile::kTileCols * window_tile::kWarpCols];  // in the order of b_position
  float values[window_tile::kTileElements];                  // those of the TC block's nonzeros
  std::uint64_t bitmap;
};
static_assert(sizeof(Stage) == 1312, "the work descriptions state this size");

constexpr std::int64_t kSharedBytes = std::int64_t{sizeof(Stage)} * kStages * kWarps;

/// The position in Stage::b of column `col` of row `row`. Vectors of 16 bytes are swizzled in
/// pairs, so that the eight lanes that a read of 16 bytes a lane serves at once (two columns of
/// vectors, four rows) find them in different banks.
TESSERA_HOST_DEVICE constexpr int b_position(int row, int col) {
  return row * window_tile::kWarpCols + ((col / 4) ^ (2 * (row % 4))) * 4 + col % 4;
}

}  // namespace tessera::staged_tiles
