// A simulation in words and shares: what the time went into.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/model.hpp"
#include "model/simulator/simulator.hpp"

namespace tessera::simulator {

struct Report {
  /// How long each resource was busy: the time there would be if everything else hid behind it.
  std::vector<PredictedPart> parts;
  /// The busiest resource, when it was busy for 70 % of the time or more; else "latency", or
  /// "balance" when SMs wait for a few long thread blocks.
  std::string bound_by;
  /// What resident warps did, as shares of their time: waiting for memory, for the load unit, for
  /// a tensor core, for others at a barrier, for an issue slot, or issuing.
  std::map<std::string, double> warp_time;
  double waves = 0;
  int resident_thread_blocks = 0;
  std::string occupancy_limit;
  double sm_balance = 0;  // mean over longest time of an SM
  double longest_thread_block_us = 0;
};

Report report(const Result& result);

/// The launch that takes most of the time; nullptr when there is none. The report's waves, balance
/// and thread blocks are of this one.
const LaunchResult* main_launch(const Result& result);

/// Thread blocks by how long they ran: edges [bins + 1] in us, counts [bins].
struct BalanceHistogram {
  std::vector<double> edges_us;
  std::vector<std::int64_t> thread_blocks;
};
BalanceHistogram balance(const Result& result, int bins);

}  // namespace tessera::simulator
