#include "model/simulator/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "formats/base/amounts.hpp"

namespace tessera::simulator {
namespace {

constexpr double kBusy = 0.7;      // share of the time from which a resource is the bottleneck
constexpr double kBalanced = 0.7;  // mean / longest time of an SM from which a launch is balanced

/// The mean / longest time during which an SM had thread blocks.
double sm_balance(const LaunchResult& launch, double sms) {
  std::vector<double> ends(static_cast<std::size_t>(sms), 0.0);
  for (const BlockSpan& span : launch.spans)
    ends[static_cast<std::size_t>(span.sm)] =
        std::max(ends[static_cast<std::size_t>(span.sm)], span.end);
  const double longest = *std::ranges::max_element(ends);
  return longest > 0 ? std::accumulate(ends.begin(), ends.end(), 0.0) / (longest * sms) : 1;
}

}  // namespace

const LaunchResult* main_launch(const Result& result) {
  const auto longest = std::ranges::max_element(result.launches, {}, &LaunchResult::cycles);
  return longest == result.launches.end() ? nullptr : &*longest;
}

Report report(const Result& result) {
  const Machine& m = result.machine;
  const SmCounts sm = result.sm();
  const MemoryCounts memory = result.memory();
  const double cycles = result.cycles();
  const auto sms = static_cast<double>(m.limits.sms);
  Report report;
  const auto add = [&](const char* name, double busy_cycles, std::string reason) {
    report.parts.push_back({name, busy_cycles / m.clock_mhz, std::move(reason)});
  };
  const double dram = static_cast<double>(memory.dram_read) * m.dram_read_interval +
                      static_cast<double>(memory.dram_write) * m.dram_write_interval;
  add("DRAM", dram,
      fmt::format("{} read, {} written", bytes_text(32.0 * static_cast<double>(memory.dram_read)),
                  bytes_text(32.0 * static_cast<double>(memory.dram_write))));
  add("L2", memory.slice_busy / kSlices,
      bytes_text(32.0 * static_cast<double>(memory.sm_read + memory.sm_write + memory.far_read +
                                            memory.far_write)) +
          " through its slices");
  add("L2 ports", sm.port_busy / sms, "between the SMs and the L2");
  add("load units", sm.load_busy / sms, counted(sm.load_requests, "load instruction"));
  add("issue slots", sm.issue_busy / (sms * m.schedulers),
      counted(sm.instructions, "instruction of a warp", "instructions of warps"));
  if (sm.mma > 0)
    add("tensor cores", sm.tensor_busy / (sms * m.schedulers), counted(sm.mma, "MMA"));
  report.parts.push_back(
      {"launch", result.time_us - cycles / m.clock_mhz,
       counted(static_cast<std::int64_t>(result.launches.size()), "launch", "launches")});

  const LaunchResult* main = main_launch(result);
  if (main != nullptr) {
    report.waves = main->waves;
    report.resident_thread_blocks = main->occupancy.thread_blocks;
    report.occupancy_limit = main->occupancy.limit;
    report.sm_balance = sm_balance(*main, sms);
    for (const BlockSpan& span : main->spans)
      report.longest_thread_block_us =
          std::max(report.longest_thread_block_us, (span.end - span.start) / m.clock_mhz);
  }
  const auto busiest = std::ranges::max_element(report.parts, {}, &PredictedPart::time_us);
  report.bound_by = busiest->time_us >= kBusy * result.time_us ? busiest->name
                    : report.sm_balance < kBalanced            ? "balance"
                                                               : "latency";
  const double waits =
      sm.wait_memory + sm.wait_load_unit + sm.wait_tensor + sm.wait_barrier + sm.wait_issue;
  const auto share = [&](double part) { return sm.warp_cycles > 0 ? part / sm.warp_cycles : 0; };
  report.warp_time = {{"memory", share(sm.wait_memory)},
                      {"load unit", share(sm.wait_load_unit)},
                      {"tensor core", share(sm.wait_tensor)},
                      {"barrier", share(sm.wait_barrier)},
                      {"issue slot", share(sm.wait_issue)},
                      {"issuing", share(std::max(0.0, sm.warp_cycles - waits))}};
  return report;
}

BalanceHistogram balance(const Result& result, int bins) {
  BalanceHistogram histogram;
  const LaunchResult* main = main_launch(result);
  if (main == nullptr) return histogram;
  double longest = 0;
  for (const BlockSpan& span : main->spans) longest = std::max(longest, span.end - span.start);
  for (int i = 0; i <= bins; ++i)
    histogram.edges_us.push_back(longest / result.machine.clock_mhz * i / bins);
  histogram.thread_blocks.assign(static_cast<std::size_t>(bins), 0);
  for (const BlockSpan& span : main->spans) {
    const double place = longest > 0 ? (span.end - span.start) / longest * bins : 0;
    ++histogram.thread_blocks[std::min(static_cast<std::size_t>(place),
                                       static_cast<std::size_t>(bins - 1))];
  }
  return histogram;
}

}  // namespace tessera::simulator
