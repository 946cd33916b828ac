// A simulated product as it runs: thread blocks on SMs, and the operations of one of them, as the
// files that notebooks/timeline.py draws Acc-SpMM's Figs. 5 and 6 from.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "experiments/points/point.hpp"
#include "model/simulator/simulator.hpp"

namespace tessera {

struct Timeline {
  simulator::Result result;
  std::int64_t thread_block = 0;  // of the main launch; its operations are kept

  /// The launch that takes most of the time.
  const simulator::LaunchResult& launch() const;
  const simulator::BlockSpan& span() const;
};

struct TimelineRequest {
  std::optional<std::int64_t> thread_block;  // of the main launch; its longest when left out
  bool warm = true;                          // as in simulator::Options
  /// Called with the name of the current simulation and the share of it that is done.
  std::function<void(const std::string& what, double share)> progress = {};
};

/// Simulates once, or, to find the longest thread block first, twice. Throws Unsupported as
/// simulate() does and for a product without thread blocks, and an Error for a thread block that
/// the main launch does not have.
Timeline make_timeline(const WorkDescription& work, const Device& device,
                       const TimelineRequest& request = {});

/// The record of a timeline: the point, the matrix's name, time and bottleneck of the product, and
/// the launch and thread block that are kept. Times are in microseconds.
Json describe(const Timeline& timeline, const Point& point, const std::string& matrix);

/// launch, thread_block, sm, start_us, end_us: every thread block, since the start of its launch.
std::string thread_blocks_csv(const Timeline& timeline);

/// launch, warp, operation, start_us, end_us: see simulator::OpSpan; by warp, then by start.
std::string operations_csv(const Timeline& timeline);

/// low_us, high_us, thread_blocks: those of the main launch by how long they ran.
std::string balance_csv(const Timeline& timeline);

}  // namespace tessera
