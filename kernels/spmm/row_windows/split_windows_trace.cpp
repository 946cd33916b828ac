#include "kernels/spmm/row_windows/split_windows_trace.hpp"

#include "kernels/spmm/row_windows/split_windows.hpp"

namespace tessera::window_tasks {
namespace {

/// Instructions of a warp besides memory instructions, counted in machine code (CUDA 13.0, sm_90a).
struct InstructionCounts {
  static constexpr int kStart = 58;  // until all lanes know how many parts have arrived
  static constexpr int kLast = 12;   // more of the last one to arrive, around its additions
  static constexpr int kVector = 5;  // added from one slot
};

}  // namespace

bool trace_combine_split_window(const Tasks& tasks, std::int64_t index, std::int64_t chunk,
                                int lane_vectors, std::uint64_t slots, int board,
                                WarpTrace& trace) {
  const Split& split = tasks.splits[tasks.tasks[index].split - 1];
  const Tasks::TeamPlace place = tasks.place_in_team(index);
  const auto vector_at = [&](std::int64_t p, int i) {
    return slots + static_cast<std::uint64_t>((chunk * tasks.slots + split.first_slot + p) *
                                                  slot_bytes(lane_vectors) +
                                              i * slot_bytes(1));
  };
  trace.issue(InstructionCounts::kStart);
  for (int i = 0; i < lane_vectors; ++i) {
    trace.store();
    trace.touch(vector_at(place.team, i), slot_bytes(1));
  }
  const bool is_last = place.team + 1 == place.teams;
  trace.arrive(is_last);
  if (!is_last) return false;
  trace.issue(InstructionCounts::kLast);
  for (std::int64_t p = 0; p < place.teams; ++p) {
    for (int i = 0; i < lane_vectors; ++i) {
      trace.load(board);
      trace.touch(vector_at(p, i), slot_bytes(1));
    }
    if (p % 2 == 1 || p + 1 == place.teams) trace.wait(board);
    trace.issue(InstructionCounts::kVector * lane_vectors);
  }
  return true;
}

}  // namespace tessera::window_tasks
