// The schedule of windows_spmm: one thread block per row window, its four warps next to each other
// in C (kernels/spmm/row_windows/staged_tiles.hpp), in passes of 128 columns.
#pragma once

#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::windows_spmm {

constexpr std::int64_t thread_blocks(std::int64_t windows) { return windows; }

/// The row window that a thread block computes.
TESSERA_HOST_DEVICE constexpr std::uint32_t window_of(std::uint32_t thread_block) {
  return thread_block;
}

}  // namespace tessera::windows_spmm
