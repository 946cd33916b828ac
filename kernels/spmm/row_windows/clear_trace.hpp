// The launch that clears split windows before atomics add to them, for the performance simulator.
#pragma once

#include <memory>

#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::row_windows {

/// Of the launch before it, where atomics add: zeros to a split window by each thread block.
/// Windows of `window_rows` of C's [rows x n].
struct Clearing {
  int window_rows;
  std::int64_t rows, n;
  std::uint64_t tasks, c;  // addresses
};
std::unique_ptr<LaunchTrace> make_clear_trace(const Clearing& clearing,
                                              std::shared_ptr<const window_tasks::Tasks> tasks);

}  // namespace tessera::row_windows
