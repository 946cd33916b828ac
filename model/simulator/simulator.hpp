// The performance simulator: it runs the launches of a work description on a described device, warp
// operation by warp operation, and gives their times and the traffic between the levels of memory.
//
// Launches of very many thread blocks can be sampled (sampling.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/work.hpp"
#include "model/device.hpp"
#include "model/simulator/grid.hpp"
#include "model/simulator/machine.hpp"
#include "model/simulator/sampling.hpp"
#include "model/simulator/traffic.hpp"

namespace tessera::simulator {

struct Options {
  bool warm = true;           // the L2 starts with the data of a previous run of the product
  std::int64_t watched = -1;  // the thread block of every launch whose operations are recorded
  Sampling sampling = {};     // cannot be combined with a watched thread block
  /// Called regularly with the completed share, in [0, 1], by one thread at a time.
  std::function<void(double done)> progress = {};
};

struct Result {
  Machine machine;
  double time_us = 0;  // one product, its launches in sequence
  std::vector<LaunchResult> launches;
  /// Half the 95 % interval of time_us due to sampling, relative; 0 without sampling.
  double time_error = 0;
  /// Half the 95 % interval of each of counters(), in its unit; empty without sampling.
  std::map<std::string, double> counter_errors = {};

  double sampled_share() const;  // simulated thread blocks / all thread blocks
  SmCounts sm() const;
  MemoryCounts memory() const;
  double cycles() const;
};

/// Simulates the launches of `work` on a device. Throws Unsupported for a kernel without a trace
/// and for a quantity that the device lacks, and an Error when a thread block is watched in a
/// sampled launch.
Result simulate(const WorkDescription& work, const Device& device, const Options& options = {});

/// Simulates on a machine that the caller has changed.
Result simulate(const WorkDescription& work, const Machine& machine, const Options& options = {});

}  // namespace tessera::simulator
