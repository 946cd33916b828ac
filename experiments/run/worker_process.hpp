// The process of a worker: its lanes are threads, each of which runs one point after the
// other, from its matrix to its record. They take turns on the device (device_turn.hpp).
#pragma once

#include "experiments/run/worker.hpp"

namespace tessera {

/// Further points for a lane, as the parent sends it: this, and behind it the addresses of `count`
/// entries. They are older than the fork, and so the same in both processes. None end the lane.
struct Gift {
  std::size_t lane = 0;
  std::size_t count = 0;
};

/// Runs the points of the assignment, and those that arrive at the socket `gifts` (-1 without one),
/// and tells of them through `events`. Ends the process.
[[noreturn]] void work(Assignment& assignment, int events, int gifts);

}  // namespace tessera
