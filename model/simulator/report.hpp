// A report of a simulation: the time of each resource, the bottleneck and the states of warps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/model.hpp"
#include "model/simulator/simulator.hpp"

namespace tessera::simulator {

struct Report {
  /// The busy time of each resource, which would be the total if everything else overlapped with
  /// it.
  std::vector<PredictedPart> parts;
  /// The busiest resource when it was busy for at least 70 % of the time; else "balance" when SMs
  /// wait for a few long thread blocks, or "latency".
  std::string bound_by;
  /// The states of resident warps as shares of their time: waiting for memory, the load unit, a
  /// tensor core, a barrier or an issue slot, or issuing.
  std::map<std::string, double> warp_time;
  double waves = 0;
  int resident_thread_blocks = 0;
  std::string occupancy_limit;
  double sm_balance = 0;  // mean / longest time of an SM
  double longest_thread_block_us = 0;
};

Report report(const Result& result);

/// The launch with the longest time, to which the report's waves, balance and thread blocks refer;
/// nullptr when there is none.
const LaunchResult* main_launch(const Result& result);

/// The distribution of the thread blocks' times.
struct BalanceHistogram {
  std::vector<double> edges_us;             // [bins + 1]
  std::vector<std::int64_t> thread_blocks;  // [bins]
};
BalanceHistogram balance(const Result& result, int bins);

}  // namespace tessera::simulator
