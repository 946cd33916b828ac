// The schedule of tcgnn: which thread block and warp computes which row window and which columns of
// C, and the shared memory of a thread block.
#pragma once

#include <cstdint>

#include "kernels/host_device.hpp"
#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/window16_tile.hpp"

namespace tessera::tcgnn {

using window16_tile::kTileCols;
using window16_tile::kTileElements;
using window16_tile::kWarpCols;

constexpr int kStages = 2;  // of a warp's rows of B: one is multiplied, one is being copied
constexpr int kTiles = 4;   // of A: the same, and two that are being cleared or still being read
constexpr int kEdges = 8;   // of a row that are examined for a TC block, which has no more

/// The numbers of warps of a thread block for which the kernel is compiled.
constexpr int kWarpChoices[] = {1, 2, 4, 8};

/// The work of one warp: a row window and 32 columns of C.
struct WorkItem {
  std::uint32_t window;
  std::int64_t first_col;  // n or more for a warp beyond the edge of C
};

/// A thread block computes a row window and 32 columns of C for each of its warps.
struct Schedule {
  int warps;

  TESSERA_HOST_DEVICE constexpr int threads() const { return 32 * warps; }
  TESSERA_HOST_DEVICE constexpr int block_cols() const { return warps * kWarpCols; }

  constexpr std::int64_t thread_blocks(std::int64_t windows, std::int64_t n) const {
    return windows * ((n + block_cols() - 1) / block_cols());
  }
  TESSERA_HOST_DEVICE constexpr WorkItem item_of(std::uint32_t thread_block, int warp,
                                                 std::uint32_t windows) const {
    const std::uint32_t window = thread_block % windows, chunk = thread_block / windows;
    return {window, (std::int64_t{chunk} * warps + warp) * kWarpCols};
  }

  /// The position of a stage in a warp's shared memory, in floats.
  TESSERA_HOST_DEVICE static constexpr int stage_of(int block) {
    return block % kStages * row_windows::stage_floats(1);
  }
  /// Bytes of shared memory: TC blocks of A with their column indices, and the warps' stages.
  TESSERA_HOST_DEVICE constexpr std::int64_t shared_bytes() const {
    return 4 *
           (kTiles * (kTileElements + kTileCols) + warps * kStages * row_windows::stage_floats(1));
  }
};

}  // namespace tessera::tcgnn
