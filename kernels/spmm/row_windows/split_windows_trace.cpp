#include "kernels/spmm/row_windows/split_windows_trace.hpp"

namespace tessera::window_tasks {

bool trace_meeting(const Tasks& tasks, std::int64_t index, std::int64_t chunk, int pieces,
                   std::uint64_t slots, int board, WarpTrace& trace) {
  constexpr int kInstructions = 40;  // CUDA 13.0, sm_90a
  const Split& split = tasks.splits[tasks.tasks[index].split - 1];
  const std::int64_t part = index - split.first_task;
  const auto slot = [&](std::int64_t p) {
    return slots +
           static_cast<std::uint64_t>((chunk * tasks.slots + split.first_slot + p) * pieces * 512);
  };
  trace.issue(kInstructions);
  for (std::int64_t i = 0; i < pieces; ++i) {
    trace.store();
    trace.touch(slot(part) + 512 * static_cast<std::uint64_t>(i), 512);
  }
  if (part + 1 < split.parts) return false;
  for (std::int64_t p = 0; p < split.parts; ++p) {
    for (std::int64_t i = 0; i < pieces; ++i) {
      trace.load(board);
      trace.touch(slot(p) + 512 * static_cast<std::uint64_t>(i), 512);
    }
    if (p % 2 == 1 || p + 1 == split.parts) trace.wait(board);
    trace.issue(5 * pieces);
  }
  return true;
}

}  // namespace tessera::window_tasks
