// The performance simulator: runs the launches of a work description on a described device, warp
// operation by warp operation, and says how long they take and what moves between the levels of
// memory.
//
// Launches of very many thread blocks can be sampled: sampling.hpp.
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
  bool warm = true;           // the L2 holds what the launches before left there
  std::int64_t watched = -1;  // a thread block of every launch whose operations are kept
  Sampling sampling = {};     // not together with a watched thread block
  /// Called from time to time with the share that is done, from one thread at a time.
  std::function<void(double done)> progress = {};
};

struct Result {
  Machine machine;
  double time_us = 0;  // of one product, launches following each other
  std::vector<LaunchResult> launches;
  /// Half the 95 % interval that sampling leaves of time_us, relative; 0 where nothing is sampled.
  double time_error = 0;
  /// The same for what counters() gives, each in its unit; empty where nothing is sampled.
  std::map<std::string, double> counter_errors = {};

  double sampled_share() const;  // of all thread blocks: those that were simulated
  SmCounts sm() const;
  MemoryCounts memory() const;
  double cycles() const;
};

/// Throws Unsupported for a kernel without a trace, and for what the device lacks.
Result simulate(const WorkDescription& work, const Device& device, const Options& options = {});

/// The same on a machine that a caller has changed.
Result simulate(const WorkDescription& work, const Machine& machine, const Options& options = {});

}  // namespace tessera::simulator
