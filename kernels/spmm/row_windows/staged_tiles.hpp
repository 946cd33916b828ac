// TC blocks of BitTCF on their way through shared memory: how far ahead, and where their parts lie.
//
// A warp has stages of its own, so that its copies need no barrier of the thread block. A stage
// holds what the warp needs of one TC block: eight rows of B, 32 columns each, the values and the
// bitmap. Host and device go by this.
#pragma once

#include <cstdint>

#include "kernels/spmm/row_windows/window_tile.hpp"

namespace tessera::staged_tiles {

constexpr int kStages = 4;  // of a warp: one is multiplied, three are on their way
constexpr int kAhead = kStages - 1;
constexpr int kWarps = 4;  // of a thread block, next to each other in C
constexpr int kThreads = 32 * kWarps;
constexpr int kBlockCols = kWarps * window_tile::kWarpCols;  // of C, in one pass

/// Rows of B lie in whole 32 bytes, in every stage: what cp.async takes apart it reads twice.
struct alignas(32) Stage {
  float b[window_tile::kTileCols * window_tile::kWarpCols];         // see place_of_b
  float values[window_tile::kWindowRows * window_tile::kTileCols];  // as many as there are
  std::uint64_t bitmap;
};
static_assert(sizeof(Stage) == 1312, "what the launches say they need");

constexpr std::int64_t kSharedBytes = std::int64_t{sizeof(Stage)} * kStages * kWarps;

/// Passes over the windows that C [rows x n] takes.
constexpr std::int64_t num_passes(std::int64_t n) { return (n + kBlockCols - 1) / kBlockCols; }

/// Where Stage::b has column `col` of row `row`. Pieces of 16 bytes change places, two at a time,
/// so that the eight lanes whose pieces a load of 16 bytes a lane fetches at once (two columns of
/// pieces, four rows) find them in different banks.
constexpr int place_of_b(int row, int col) {
  return row * window_tile::kWarpCols + ((col / 4) ^ (2 * (row % 4))) * 4 + col % 4;
}

}  // namespace tessera::staged_tiles
