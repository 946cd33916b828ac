#include "experiments/backends/timed_launches.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "experiments/backends/later_product.hpp"
#include "experiments/backends/launch_watch.hpp"
#include "experiments/backends/time_summary.hpp"

namespace tessera {
namespace {

constexpr double kLeastBatchUs = 100, kLeastReplayUs = 500;
constexpr double kLeastLaunchUs = 0.5;
constexpr int kMostMeasurements = 3;

// The batch that is compared with the host's clock. The host sees the work as late as it takes to
// submit the first launch and to wake up: some ten microseconds, more where it is interrupted.
constexpr double kProofUs = 2000, kMostProofLaunches = 1000;
constexpr double kHostSlackUs = 50, kHostShare = 0.05;
constexpr int kMostProofs = 5;

// One launch after a change against one without.
constexpr double kChangeSlackUs = 5, kChangeFactor = 1.5;
constexpr int kRounds = 5, kMostTries = 3;
constexpr double kRoundsUs = 2e5;  // no further round after that much time

bool quiet(const std::vector<double>& samples, double noise) {
  const auto n = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  return std::sqrt(squares / (n - 1) / n) < noise * mean;
}

class Timing {
 public:
  Timing(TimedDevice& device, const MeasureRule& rule)
      : device_(device), rule_(rule), cold_(rule.l2 == "flush") {}

  void warm_up() {
    once_us_ = batch_us(1);
    const double began = device_.host_us();
    for (std::int64_t i = 1; i < rule_.warmup && !passed(began); ++i) once_us_ = batch_us(1);
  }

  TimeSummary sample() {
    const std::int64_t launches = cold_ ? 1 : launches_of_batch();
    std::vector<double> samples;
    const double began = device_.host_us();
    const std::int64_t least = std::max<std::int64_t>(rule_.min_samples, 2);
    while (static_cast<std::int64_t>(samples.size()) < std::max(rule_.max_samples, least)) {
      samples.push_back(batch_us(launches));
      const bool enough = static_cast<std::int64_t>(samples.size()) >= least;
      if (enough && (quiet(samples, rule_.noise) || passed(began))) break;
    }
    return summarise(std::move(samples), launches);
  }

  std::string fault(double median_us) {
    if (const std::int64_t bytes = device_.take_back_l2(); cold_ && bytes > 0)
      return fmt::format("the kernel keeps {} bytes of the L2, which outlast its emptying", bytes);
    const auto launches = static_cast<std::int64_t>(
        std::clamp(std::ceil(kProofUs / std::max(median_us, 0.1)), 1.0, kMostProofLaunches));
    std::string found;
    for (int i = 0; i < kMostProofs; ++i) {
      found = fault_of(proof(launches), launches);
      if (found.empty()) break;
    }
    return found;
  }

 private:
  /// A batch on a device that is idle before, and the host's view of it.
  struct Proof {
    double device_us;  // from start to stop
    double after_us;   // from the stop until nothing works any more, by the host's clock
    double host_us;    // all, by the host's clock
  };

  /// A launch alone takes longer than one of many, above all where a graph begins with it.
  std::int64_t launches_of_batch() {
    const double least_us = replays(rule_) ? kLeastReplayUs : kLeastBatchUs;
    const auto launches = [&] {
      return static_cast<std::int64_t>(std::ceil(least_us / std::max(once_us_, kLeastLaunchUs)));
    };
    if (launches() > 1) once_us_ = batch_us(launches());
    return launches();
  }

  bool passed(double began_us) { return device_.host_us() - began_us > 1e6 * rule_.max_seconds; }

  double batch_us(std::int64_t launches) {
    const WatchedLaunch watched;
    device_.prepare(launches);
    if (cold_) device_.empty_l2();
    device_.start();
    device_.launch(launches);
    return device_.stop_us() / static_cast<double>(launches);
  }

  Proof proof(std::int64_t launches) {
    const WatchedLaunch watched;
    device_.prepare(launches);
    device_.finish();
    const double began = device_.host_us();
    device_.start();
    device_.launch(launches);
    const double device_us = device_.stop_us();
    const double stopped = device_.host_us();
    device_.finish();
    const double ended = device_.host_us();
    return {device_us, ended - stopped, ended - began};
  }

  static std::string fault_of(const Proof& proof, std::int64_t launches) {
    const double slack = kHostSlackUs + kHostShare * proof.device_us;
    if (proof.after_us > slack)
      return fmt::format(
          "{} launches of {:.0f} us between start and stop are followed by {:.0f} us of work: part "
          "of it is on another stream",
          launches, proof.device_us, proof.after_us);
    if (proof.host_us - proof.device_us > slack)
      return fmt::format(
          "{} launches take {:.0f} us by the device's clock and {:.0f} by the host's", launches,
          proof.device_us, proof.host_us);
    return "";
  }

  TimedDevice& device_;
  const MeasureRule& rule_;
  const bool cold_;
  double once_us_ = 0;
};

}  // namespace

LaunchTimes time_launches(TimedDevice& device, const MeasureRule& rule) {
  Timing timing(device, rule);
  timing.warm_up();
  LaunchTimes times;
  for (GpuLoad before = device.load();; ++times.measurements) {
    times.summary = timing.sample();
    const GpuLoad after = device.load();
    std::vector<std::string> reasons = lowered_clocks(before, after);
    const bool again = !reasons.empty() && times.measurements < kMostMeasurements;
    if (const std::string others = others_on_gpu(before, after); !others.empty())
      reasons.push_back(others);
    times.disturbed = fmt::format("{}", fmt::join(reasons, "; "));
    if (!again) break;
    before = after;
  }
  times.fault = timing.fault(times.summary.median);
  if (!times.fault.empty()) times.fault = "the time cannot be trusted: " + times.fault;
  return times;
}

bool replays(const MeasureRule& rule) { return rule.launch == "graph" && rule.l2 == "warm"; }

TimePart time_part(const LaunchTimes& times, const MeasureRule& rule) {
  TimePart part{.summary = times.summary, .l2 = rule.l2};
  if (replays(rule)) part.launch = rule.launch;
  std::string doubts = times.disturbed;
  add_reason(times.fault, doubts);
  if (!doubts.empty()) part.disturbed = doubts;
  if (times.measurements > 1) part.measurements = times.measurements;
  return part;
}

std::string repeat_fault(RepeatedProduct& product) {
  double same = 0, changed = 0;
  for (int attempt = 0; attempt < kMostTries; ++attempt) {
    same = changed = std::numeric_limits<double>::infinity();
    double spent = 0;
    for (int round = 0; round < kRounds && spent < kRoundsUs; ++round) {
      product.rewrite();
      const double of_same = product.launch_us();
      product.change();
      const double of_changed = product.launch_us();
      same = std::min(same, of_same);
      changed = std::min(changed, of_changed);
      spent += of_same + of_changed;
    }
    if (changed <= kChangeFactor * same + kChangeSlackUs) return "";
  }
  return fmt::format(
      "the time cannot be trusted: a launch takes {:.1f} us after its operand and its result have "
      "changed, and {:.1f} us when both are as the last launch left them",
      changed, same);
}

}  // namespace tessera
