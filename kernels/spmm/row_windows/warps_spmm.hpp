// The schedule of warps_spmm: one warp per row window (kernels/spmm/row_windows/window_tile.hpp),
// eight consecutive windows per thread block, in passes of 128 columns.
#pragma once

#include <cstdint>

#include "kernels/host_device.hpp"
#include "kernels/spmm/row_windows/window_tile.hpp"

namespace tessera::warps_spmm {

constexpr int kWarps = 8;  // of a thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kGroups = 4;  // of 32 columns in a pass, all multiplied even where C has fewer
constexpr int kPassCols = kGroups * window_tile::kWarpCols;
constexpr int kRegisters = 128;  // allocated for a thread

constexpr std::int64_t thread_blocks(std::int64_t windows) {
  return (windows + kWarps - 1) / kWarps;
}

/// The row window that a warp computes; the warp is idle where C has fewer windows.
TESSERA_HOST_DEVICE constexpr std::int64_t window_of(std::uint32_t thread_block,
                                                     std::uint32_t warp) {
  return std::int64_t{thread_block} * kWarps + warp;
}

constexpr std::int64_t num_passes(std::int64_t n) { return (n + kPassCols - 1) / kPassCols; }

/// The first column of C of a pass.
constexpr std::int64_t first_col(std::int64_t pass) { return pass * kPassCols; }

}  // namespace tessera::warps_spmm
