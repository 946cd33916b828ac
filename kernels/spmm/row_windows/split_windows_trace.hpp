// How the sums of split windows meet (split_windows.cuh), for the simulator.
#pragma once

#include <cstdint>

#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::window_tasks {

/// Leaves the sums of a split window's task in its slot of `pieces` times 512 bytes; the last part
/// is taken for the last to arrive, which reads all: true.
bool trace_meeting(const Tasks& tasks, std::int64_t index, std::int64_t chunk, int pieces,
                   std::uint64_t slots, int board, WarpTrace& trace);

}  // namespace tessera::window_tasks
