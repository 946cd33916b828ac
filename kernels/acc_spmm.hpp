// How acc_spmm cuts C up; its host and its device half both go by this: one warp computes an 8-row
// window of C for 32 columns (kernels/window_tile.hpp).
#pragma once

#include <cstdint>

#include "kernels/window_tile.hpp"

namespace tessera::acc_spmm {

constexpr int kWarps = 4;  // per thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kRegisters = 64;  // of a thread, as they are allocated: in eights

/// Warps needed for C [rows x n]: warp w does window w / chunks, columns 32 (w % chunks) on.
using window_tile::num_col_chunks;

}  // namespace tessera::acc_spmm
