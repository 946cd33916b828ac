// The warp trace of combining a split window's sums (split_windows.cuh).
#pragma once

#include <cstdint>

#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::window_tasks {

/// Appends the stores of task number `index`, the last of its team, to the team's slot,
/// `lane_vectors` vectors of 16 bytes a lane. The trace takes the last team of a window for the
/// last to arrive: it reads all slots, and the function returns true.
bool trace_combine_split_window(const Tasks& tasks, std::int64_t index, std::int64_t chunk,
                                int lane_vectors, std::uint64_t slots, int board, WarpTrace& trace);

}  // namespace tessera::window_tasks
