#include "model/advisor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "model/model.hpp"
#include "model/simulator/counters.hpp"
#include "model/simulator/report.hpp"
#include "model/simulator/simulator.hpp"

namespace tessera::advisor {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A maximum that remembers what it is of.
void keep_larger(LowerBound& bound, double time_us, const char* by) {
  if (time_us > bound.time_us) bound = {time_us, by};
}

/// Cycles of one launch.
LowerBound of_launch(std::span<const ThreadBlockWork> blocks, const simulator::Machine& m) {
  // Of one tensor core in four, and of the load unit: what all thread blocks need is spread over
  // the SMs at best, what one needs is not.
  double mma = 0, load = 0, longest = 0;
  for (const ThreadBlockWork& block : blocks) {
    const double tensor = static_cast<double>(block.mma) * m.mma_interval / m.schedulers;
    const double loads = static_cast<double>(block.b_bytes) / kSectorBytes * m.sector_interval;
    mma += tensor;
    load += loads;
    longest = std::max({longest, tensor, loads});
  }
  LowerBound cycles;
  keep_larger(cycles, mma / m.sms, "tensor cores");
  keep_larger(cycles, load / m.sms, "load units");
  keep_larger(cycles, longest, "longest thread block");
  return cycles;
}

/// Throws Unsupported for what no simulator can run.
void require_trace(const WorkDescription& work) {
  require<Unsupported>(!work.launches.empty(), "{} describes no launches", work.kernel);
  for (const Launch& launch : work.launches)
    require<Unsupported>(launch.trace != nullptr, "{} publishes no trace of its warps",
                         work.kernel);
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

/// What decides the time, in words.
std::string decisive(const simulator::Report& report, double time_us) {
  if (report.bound_by == "balance")
    return fmt::format("a few long thread blocks decide, SMs are busy for {} of the time",
                       percent(report.sm_balance));
  const auto part = std::ranges::find(report.parts, report.bound_by, &PredictedPart::name);
  if (part != report.parts.end())
    return fmt::format("{} busy for {} of the time", report.bound_by,
                       percent(part->time_us / time_us));
  const auto longest = std::ranges::max_element(report.warp_time, {}, [](const auto& wait) {
    return wait.first == "issuing" ? -1 : wait.second;
  });
  return fmt::format("latency: nothing is busy for most of the time, warps wait for {} during {}",
                     longest->first, percent(longest->second));
}

std::string explain(const simulator::Result& result, const simulator::Report& report) {
  const auto counters = simulator::counters(result);
  const simulator::MemoryCounts memory = result.memory();
  const auto mb = [](std::int64_t sectors) {
    return 1e-6 * kSectorBytes * static_cast<double>(sectors);
  };
  return fmt::format(
      "{}; {:.3g} wave{} of {} thread blocks an SM, the longest takes {:.3g} us; {:.3g} MB asked "
      "of "
      "the L2 ({:.0f} % hits) after {:.0f} % hits in L1, {:.3g} MB from and to device memory",
      decisive(report, result.time_us), report.waves, report.waves == 1 ? "" : "s",
      report.resident_thread_blocks, report.longest_thread_block_us,
      mb(memory.sm_read + memory.sm_write), counters.at("lts__t_sector_hit_rate.pct"),
      counters.at("l1tex__t_sector_hit_rate.pct"), mb(memory.dram_read + memory.dram_write));
}

Ranked simulated(Ranked one, const Described& described, const Device& device,
                 const Options& options, const std::string& what) {
  simulator::Options how{.warm = options.warm};
  if (options.tell) how.progress = [&](double share) { options.tell(what, share); };
  const simulator::Result result = simulator::simulate(described.work, device, how);
  const simulator::Report report = simulator::report(result);
  one.origin = Origin::kSimulated;
  one.time_us = result.time_us;
  one.bound_by = report.bound_by;
  one.reason = explain(result, report);
  return one;
}

Ranked modelled(Ranked one, const Described& described, const Device& device,
                const Options& options) {
  const auto roofline = Registry<Model>::instance().make("roofline", {{"warm", options.warm}});
  const Prediction prediction = roofline->predict(described.work, device);
  const auto part = std::ranges::find(prediction.parts, prediction.bound_by, &PredictedPart::name);
  one.origin = Origin::kModelled;
  one.time_us = prediction.time_us;
  one.bound_by = prediction.bound_by;
  one.reason = fmt::format("{}: {}", part->name, part->reason);
  return one;
}

Ranked bounded(Ranked one) {
  one.origin = Origin::kBound;
  one.time_us = one.bound.time_us;
  one.bound_by = one.bound.bound_by;
  one.reason = fmt::format("{} alone need{} so long: not simulated", one.bound_by,
                           one.bound_by.ends_with('s') ? "" : "s");
  return one;
}

/// Rates every candidate by its bound; with `quick` by the roofline, and that is all.
std::vector<Ranked> bound_all(const std::vector<Candidate>& candidates, const Device& device,
                              const Options& options, std::vector<Excluded>& excluded) {
  std::vector<Ranked> all;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (options.interrupted && options.interrupted()) {
      excluded.push_back({i, "interrupted before it was looked at"});
      continue;
    }
    const auto share = static_cast<double>(i) / static_cast<double>(candidates.size());
    if (options.tell) options.tell("bounds of " + candidates[i].name, share);
    try {
      const Described described = candidates[i].describe();
      require_trace(described.work);
      const simulator::Machine machine = simulator::describe(device, described.work);
      Ranked one;
      one.candidate = i;
      one.bound = lower_bound(described.work, machine, options.warm);
      all.push_back(options.quick ? modelled(std::move(one), described, device, options)
                                  : std::move(one));
    } catch (const Unsupported& error) {
      excluded.push_back({i, error.what()});
    }
  }
  return all;
}

void sort_by_time(std::vector<Ranked>& ranked) {
  std::ranges::sort(ranked, {}, [](const Ranked& one) {
    return std::tuple(one.origin == Origin::kBound, one.time_us, one.candidate);
  });
}

}  // namespace

LowerBound lower_bound(const WorkDescription& work, const simulator::Machine& m, bool warm) {
  LowerBound bound;
  double launches_us = 0, running_us = 0;
  LowerBound longest;  // launch, in cycles
  auto rest = std::span(work.thread_blocks);
  for (const Launch& launch : work.launches) {
    const auto count = static_cast<std::size_t>(launch.thread_blocks);
    const LowerBound cycles = of_launch(rest.first(count), m);
    rest = rest.subspan(count);
    const double us = cycles.time_us / m.clock_mhz;
    running_us += std::max(us + m.launch_gap_us, m.launch_overhead_us);
    launches_us += std::max(m.launch_gap_us, m.launch_overhead_us);
    keep_larger(longest, cycles.time_us, cycles.bound_by.c_str());
  }
  keep_larger(bound, launches_us, "launch");
  if (running_us > launches_us) keep_larger(bound, running_us, longest.bound_by.c_str());

  const std::int64_t operands =
      std::min(work.footprint_bytes, work.total().a_bytes) + work.b_rows_bytes;
  const std::int64_t kept = warm ? m.l2_bytes : 0;
  const double sectors =
      static_cast<double>(std::max<std::int64_t>(operands - kept, 0)) / kSectorBytes;
  keep_larger(bound, sectors * m.dram_read_interval / m.clock_mhz, "DRAM");
  return bound;
}

bool Advice::ties_with_best(const Ranked& one) const {
  return !ranked.empty() && one.origin != Origin::kBound &&
         one.time_us <= (1 + kSimulatorError) * ranked.front().time_us;
}

const Ranked* Advice::fastest_unordered(const std::vector<Candidate>& candidates) const {
  const auto found = std::ranges::find_if(ranked, [&](const Ranked& one) {
    return one.origin != Origin::kBound && candidates[one.candidate].unordered;
  });
  return found == ranked.end() ? nullptr : &*found;
}

Advice rank(const std::vector<Candidate>& candidates, const Device& device,
            const Options& options) {
  Advice advice;
  advice.ranked = bound_all(candidates, device, options, advice.excluded);
  if (options.quick) {
    sort_by_time(advice.ranked);
    return advice;
  }
  std::ranges::stable_sort(advice.ranked, {}, [](const Ranked& one) { return one.bound.time_us; });
  double best = kInfinity, best_unordered = kInfinity;
  for (std::size_t i = 0; i < advice.ranked.size(); ++i) {
    Ranked& one = advice.ranked[i];
    const Candidate& candidate = candidates[one.candidate];
    const double limit = candidate.unordered ? best_unordered : best;
    const bool hopeless = one.bound.time_us > (1 + kSimulatorError) * limit;
    if (hopeless || (options.interrupted && options.interrupted())) {
      one = bounded(std::move(one));
      continue;
    }
    const std::string what =
        fmt::format("{} ({} of {})", candidate.name, i + 1, advice.ranked.size());
    if (options.tell) options.tell(what, 0);
    one = simulated(std::move(one), candidate.describe(), device, options, what);
    best = std::min(best, one.time_us);
    if (candidate.unordered) best_unordered = std::min(best_unordered, one.time_us);
  }
  sort_by_time(advice.ranked);
  return advice;
}

std::optional<std::int64_t> products_until_paid(double extra_s, double saved_us) {
  if (!(saved_us > 0)) return std::nullopt;
  return std::llround(std::ceil(std::max(extra_s, 0.0) * 1e6 / saved_us));
}

}  // namespace tessera::advisor
