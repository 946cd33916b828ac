// The launch of a kernel whose warps take tasks of row windows (window_tasks.hpp): thread blocks of
// independent warps, and how the sums of a split window come together.
#pragma once

#include <cstdint>

#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/spmm/row_windows/window_tile.hpp"

namespace tessera::row_windows {

constexpr int kWarps = 4;  // per thread block
constexpr int kThreads = 32 * kWarps;

// Of a thread block that writes zeros to a window that atomics add to.
constexpr int kClearThreads = 256;
constexpr int kClearRegisters = 24;  // of a thread, as they are allocated

/// How the sums of a split window come together.
enum class Combine {
  kOrdered,  // the last task to arrive adds all, in the order of their TC blocks
  kAtomic,   // each adds its own to C
};

/// Warps side by side in C [rows x n].
constexpr std::int64_t num_chunks(std::int64_t n, int groups) {
  return (n + groups * window_tile::kWarpCols - 1) / (groups * window_tile::kWarpCols);
}

}  // namespace tessera::row_windows
