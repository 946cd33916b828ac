// How the sums of a split window's tasks are combined (window_tasks.hpp): the size of a slot that
// holds the sums of one task, for the device code and the host.
#pragma once

#include <cstdint>

namespace tessera::window_tasks {

/// How the sums of a split window's tasks are combined.
enum class CombineMethod {
  kOrdered,  // the last task to arrive adds all sums, in the order of their TC blocks
  kAtomic,   // each task adds its sums to C
};

/// The number of 16-byte vectors in a slot: `lane_vectors` for each lane.
constexpr int slot_vectors(int lane_vectors) { return 32 * lane_vectors; }
constexpr std::int64_t slot_bytes(int lane_vectors) {
  return std::int64_t{16} * slot_vectors(lane_vectors);
}

}  // namespace tessera::window_tasks
