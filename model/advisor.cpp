#include "model/advisor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "model/model.hpp"
#include "model/simulator/counters.hpp"
#include "model/simulator/report.hpp"
#include "model/simulator/simulator.hpp"

namespace tessera::advisor {
namespace {

/// Raises a bound to a larger time, and notes the resource that needs it.
void keep_larger(LowerBound& bound, double time_us, const char* by) {
  if (time_us > bound.time_us) bound = {time_us, by};
}

/// The cycles that a launch needs at least (in place of microseconds).
LowerBound cycles_of_launch(std::span<const ThreadBlockWork> blocks, const simulator::Machine& m) {
  // Cycles of tensor cores and load units. At best, those of all thread blocks are spread evenly
  // over the SMs; those of one thread block stay on one SM.
  double mma = 0, load = 0, longest = 0;
  for (const ThreadBlockWork& block : blocks) {
    const double tensor = static_cast<double>(block.mma) * m.mma_interval / m.schedulers;
    const double loads = static_cast<double>(block.b_bytes) / kSectorBytes * m.sector_interval;
    mma += tensor;
    load += loads;
    longest = std::max({longest, tensor, loads});
  }
  LowerBound cycles;
  keep_larger(cycles, mma / static_cast<double>(m.limits.sms), "tensor cores");
  keep_larger(cycles, load / static_cast<double>(m.limits.sms), "load units");
  keep_larger(cycles, longest, "longest thread block");
  return cycles;
}

/// Throws Unsupported for work that the simulator cannot run.
void require_trace(const WorkDescription& work) {
  require<Unsupported>(!work.launches.empty(), "{} describes no launches", work.kernel);
  for (const Launch& launch : work.launches)
    require<Unsupported>(launch.trace != nullptr, "{} publishes no trace of its warps",
                         work.kernel);
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

/// The cause of the simulated time, in words.
std::string cause(const simulator::Report& report, double time_us) {
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
  const auto amount = [](std::int64_t sectors) {
    return bytes_text(kSectorBytes * static_cast<double>(sectors));
  };
  return fmt::format(
      "{}; {:.3g} wave{} of {} thread blocks per SM, the longest takes {}; {} requested "
      "from the L2 ({:.0f} % hits) after {:.0f} % hits in L1, {} to and from device memory",
      cause(report, result.time_us), report.waves, report.waves == 1 ? "" : "s",
      report.resident_thread_blocks, time_text(report.longest_thread_block_us),
      amount(memory.sm_read + memory.sm_write), counters.at("lts__t_sector_hit_rate.pct"),
      counters.at("l1tex__t_sector_hit_rate.pct"), amount(memory.dram_read + memory.dram_write));
}

/// The policy "predict": bounds first, then the simulator; or the roofline alone.
class PredictPolicy final : public Policy {
 public:
  PredictPolicy(const std::vector<Alternative>& alternatives, const Device& device,
                const Options& options)
      : alternatives_(alternatives), device_(device), options_(options) {}

  std::string name() const override { return "predict"; }
  double tolerance() const override { return kSimulatorError; }

  Rating screen(std::size_t candidate) override {
    Rating rating = bound_or_roofline(candidate);
    if (options_.rated) options_.rated(alternatives_[candidate], rating);
    return rating;
  }

  Rating refine(const Rating& bound, const std::function<void(double)>& progress) override {
    const auto watched = [&](double share) {
      if (options_.interrupted && options_.interrupted()) throw Interrupted();
      if (progress) progress(share);
    };
    try {
      Rating rating = simulated(bound, watched);
      if (options_.rated) options_.rated(alternatives_[bound.candidate], rating);
      return rating;
    } catch (const Interrupted&) {
      return bound;
    }
  }

 private:
  /// Ends a simulation from within.
  struct Interrupted {};

  Rating bound_or_roofline(std::size_t candidate) const {
    const Described described = alternatives_[candidate].describe();
    require_trace(described.work);
    const simulator::Machine machine = simulator::describe(device_, described.work);
    const LowerBound bound = lower_bound(described.work, machine, options_.warm);
    if (options_.quick) return by_roofline(described.work, bound);
    return {.origin = Origin::kBound,
            .time_us = bound.time_us,
            .bound_by = bound.bound_by,
            .reason = fmt::format("{} alone need{} this time: not simulated", bound.bound_by,
                                  bound.bound_by.ends_with('s') ? "" : "s"),
            .bound = bound};
  }

  Rating simulated(const Rating& bound, const std::function<void(double)>& progress) const {
    const Described described = alternatives_[bound.candidate].describe();
    const simulator::Result result =
        simulator::simulate(described.work, device_, {.warm = options_.warm, .progress = progress});
    const simulator::Report report = simulator::report(result);
    return {.origin = Origin::kSimulated,
            .time_us = result.time_us,
            .bound_by = report.bound_by,
            .reason = explain(result, report),
            .bound = bound.bound};
  }

  Rating by_roofline(const WorkDescription& work, const LowerBound& bound) const {
    const auto roofline = Registry<Model>::instance().make("roofline", {{"warm", options_.warm}});
    const Prediction prediction = roofline->predict(work, device_);
    const auto part =
        std::ranges::find(prediction.parts, prediction.bound_by, &PredictedPart::name);
    return {.origin = Origin::kModelled,
            .time_us = prediction.time_us,
            .bound_by = prediction.bound_by,
            .reason = fmt::format("{}: {}", part->name, part->reason),
            .bound = bound};
  }

  const std::vector<Alternative>& alternatives_;
  const Device& device_;
  const Options& options_;
};

}  // namespace

LowerBound lower_bound(const WorkDescription& work, const simulator::Machine& m, bool warm) {
  LowerBound bound;
  double launches_us = 0, running_us = 0;
  LowerBound longest;  // of all launches, in cycles
  auto rest = std::span(work.thread_blocks);
  for (const Launch& launch : work.launches) {
    const auto count = static_cast<std::size_t>(launch.thread_blocks);
    const LowerBound cycles = cycles_of_launch(rest.first(count), m);
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

Decision rank(const std::vector<Alternative>& alternatives, const Device& device,
              const Options& options) {
  std::vector<Candidate> candidates;
  for (const Alternative& one : alternatives) candidates.push_back({one.name, one.keeps_order});
  PredictPolicy policy(alternatives, device, options);
  return decide(candidates, policy,
                {.progress = options.progress, .interrupted = options.interrupted});
}

std::vector<std::size_t> not_considered(const Decision& decision,
                                        const std::vector<Alternative>& alternatives) {
  const auto time_of = [](const Rating* one) {
    return one == nullptr ? std::numeric_limits<double>::infinity() : one->time_us;
  };
  const auto timed = std::ranges::find_if(
      decision.ranked, [](const Rating& one) { return one.origin != Origin::kBound; });
  const double best = time_of(timed == decision.ranked.end() ? nullptr : &*timed);
  const double best_in_order = time_of(fastest_in_given_order(decision, alternatives));
  std::vector<bool> considered(alternatives.size());
  for (const Excluded& one : decision.excluded) considered[one.candidate] = true;
  for (const Rating& one : decision.ranked) {
    const double limit = alternatives[one.candidate].keeps_order ? best_in_order : best;
    considered[one.candidate] =
        one.origin != Origin::kBound || one.time_us > (1 + decision.tolerance) * limit;
  }
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < alternatives.size(); ++i)
    if (!considered[i]) rest.push_back(i);
  return rest;
}

const Rating* fastest_in_given_order(const Decision& decision,
                                     const std::vector<Alternative>& alternatives) {
  const auto found = std::ranges::find_if(decision.ranked, [&](const Rating& one) {
    return one.origin != Origin::kBound && alternatives[one.candidate].keeps_order;
  });
  return found == decision.ranked.end() ? nullptr : &*found;
}

std::optional<std::int64_t> products_until_paid(double extra_s, double saved_us) {
  if (!(saved_us > 0)) return std::nullopt;
  return std::llround(std::ceil(std::max(extra_s, 0.0) * 1e6 / saved_us));
}

}  // namespace tessera::advisor
