// The performance simulator: runs the launches of a work description on a described device, warp
// operation by warp operation, and says how long they take and what moves between the levels of
// memory.
//
// SMs advance side by side through a short stretch of time, less than what any answer of the L2
// takes; then the groups of the memory serve what was asked, in the order of its times; then the
// answers are handed back. Both halves run in parallel and share nothing, so the outcome is the
// same for any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/work.hpp"
#include "model/device.hpp"
#include "model/simulator/machine.hpp"
#include "model/simulator/multiprocessor.hpp"
#include "model/simulator/traffic.hpp"

namespace tessera::simulator {

struct Options {
  bool warm = true;           // the L2 holds what the launches before left there
  std::int64_t watched = -1;  // a thread block of every launch whose operations are kept
  /// Called from time to time with the share that is done, from one thread at a time.
  std::function<void(double done)> progress = {};
};

/// What came of one launch.
struct LaunchResult {
  std::string name;
  double cycles = 0;  // from its first thread block's start to its last one's end
  Occupancy occupancy;
  double waves = 0;  // thread blocks over those the GPU holds at once
  SmCounts sm;
  MemoryCounts memory;
  std::vector<BlockSpan> spans;  // [thread blocks] in the order of the launch
  std::vector<OpSpan> watched;   // operations of the watched thread block
};

struct Result {
  Machine machine;
  double time_us = 0;  // of one product, launches following each other
  std::vector<LaunchResult> launches;

  SmCounts sm() const;
  MemoryCounts memory() const;
  double cycles() const;
};

/// Throws Unsupported for a kernel without a trace, and for what the device lacks.
Result simulate(const WorkDescription& work, const Device& device, const Options& options = {});

/// The same on a machine that a caller has changed.
Result simulate(const WorkDescription& work, const Machine& machine, const Options& options = {});

}  // namespace tessera::simulator
