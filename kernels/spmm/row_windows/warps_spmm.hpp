// How warps_spmm cuts C up: one warp per row window (kernels/spmm/row_windows/window_tile.hpp),
// eight windows in order per thread block, in passes of 128 columns.
#pragma once

#include "kernels/spmm/row_windows/window_tile.hpp"

namespace tessera::warps_spmm {

constexpr int kWarps = 8;  // per thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kGroups = 4;  // of 32 columns in a pass, all multiplied also where C has fewer
constexpr int kPassCols = kGroups * window_tile::kWarpCols;
constexpr int kRegisters = 128;  // of a thread, as they are allocated: in eights

}  // namespace tessera::warps_spmm
