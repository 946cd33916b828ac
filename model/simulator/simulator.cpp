#include "model/simulator/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "model/simulator/counters.hpp"

namespace tessera::simulator {
namespace {

/// The first thread block of a warm-up, counted over all launches of the description. Data beyond
/// the L2's capacity replaces older data, so it suffices to run thread blocks that request several
/// times that capacity.
std::int64_t warm_up_from(const WorkDescription& work, const Machine& machine) {
  constexpr double kTurnovers = 6;
  if (work.footprint_bytes + work.b_rows_bytes + work.c_bytes <= machine.l2_bytes) return 0;
  double bytes = kTurnovers * static_cast<double>(machine.l2_bytes);
  auto first = static_cast<std::int64_t>(work.thread_blocks.size());
  while (first > 0 && bytes > 0) {
    const ThreadBlockWork& block = work.thread_blocks[static_cast<std::size_t>(--first)];
    bytes -= static_cast<double>(block.a_bytes + block.b_bytes + block.c_bytes);
  }
  return first;
}

/// The launches of a product that run at a time, and their thread blocks.
struct Side {
  std::vector<const Launch*> launches = {};
  std::vector<BlockRange> ranges = {};
  std::int64_t thread_blocks = 0;

  const Launch& first() const { return *launches.front(); }
};
std::vector<Side> sides_of(const WorkDescription& work) {
  std::vector<Side> sides;
  for (const Launch& launch : work.launches) {
    if (launch.thread_blocks == 0) continue;
    if (sides.empty() || !launch.is_beside) sides.emplace_back();
    Side& side = sides.back();
    side.ranges.push_back({0, launch.thread_blocks, side.launches.size()});
    side.launches.push_back(&launch);
    side.thread_blocks += launch.thread_blocks;
  }
  return sides;
}

/// The time of sides that the host submits without a wait, one after another. [sides] of `launches`
double launches_us(const std::vector<Side>& sides, const Result& result) {
  const Machine& machine = result.machine;
  double sum = 0;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const double gap =
        sides[i].first().overlaps ? machine.overlapped_gap_us : machine.launch_gap_us;
    sum +=
        std::max(result.launches[i].cycles / machine.clock_mhz + gap, machine.launch_overhead_us);
  }
  return sum;
}

/// The time of a product in which the host waits for the device, from its first call until it has
/// seen the end.
double product_with_waits_us(const std::vector<Side>& sides, const Result& result) {
  const Machine& machine = result.machine;
  double host = 0, device = 0, reported = 0;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const Launch& launch = sides[i].first();
    const auto launches = static_cast<double>(sides[i].launches.size());
    if (launch.waits) host = std::max(host, reported + machine.report_us);
    host += launch.allocations * machine.allocation_us;
    if (launches > 1) host += machine.fork_us;
    host += machine.launch_overhead_us;
    device = std::max(device + machine.launch_gap_us, host + machine.launch_start_us) +
             result.launches[i].cycles / machine.clock_mhz;
    host += (launches - 1) * machine.launch_overhead_us;
    if (!launch.hides_wait) reported = device;
  }
  return device + machine.synchronisation_us;
}

double product_us(const std::vector<Side>& sides, const Result& result) {
  const bool waits =
      std::ranges::any_of(sides, [](const Side& side) { return side.first().waits; });
  return waits ? product_with_waits_us(sides, result) : launches_us(sides, result);
}

/// The simulation of a product: its launches on one machine, one after the other but for those that
/// run at a time.
class ProductRun {
 public:
  ProductRun(const WorkDescription& work, const Machine& machine)
      : work_(work),
        sides_(sides_of(work)),
        machine_(machine),
        team_(std::clamp(num_threads(), 1, kGroups)) {
    for (int group = 0; group < kGroups; ++group) memory_.emplace_back(machine, group);
  }

  /// Runs thread blocks from `first` on, counted over all launches, to fill the L2.
  void warm_up(std::int64_t first) {
    std::int64_t before = 0;
    for (const Side& side : sides_) {
      std::vector<BlockRange> ranges;
      for (BlockRange range : side.ranges) {
        range.first = std::clamp<std::int64_t>(first - before, 0, range.last);
        before += range.last;
        if (range.size() > 0) ranges.push_back(range);
      }
      if (!ranges.empty()) Grid(machine_, side.launches, ranges, memory_).run(team_, nullptr);
    }
  }

  Result run(const Options& options) {
    Result result;
    result.machine = machine_;
    std::vector<std::pair<std::size_t, SampledLaunch>> sampled;  // index of a launch, and its rates
    std::span<const ThreadBlockWork> rest = work_.thread_blocks;
    for (const Side& side : sides_) {
      const auto blocks = rest.first(static_cast<std::size_t>(side.thread_blocks));
      rest = rest.subspan(blocks.size());
      if (auto sample = run_sample(side, blocks, options, result.launches))
        sampled.emplace_back(result.launches.size() - 1, std::move(*sample));
      else
        run_whole(side, options, result.launches);
    }
    result.time_us = product_us(sides_, result);
    if (!sampled.empty()) put_errors(sampled, result);
    return result;
  }

 private:
  void run_whole(const Side& side, const Options& options, std::vector<LaunchResult>& launches) {
    Grid grid(machine_, side.launches, side.ranges, memory_);
    grid.watch(options.watched);
    launches.push_back(grid.run(team_, options.progress));
  }

  /// Runs a sample of a launch; empty, with all state restored, when it has to be simulated whole,
  /// as launches that run at a time have.
  std::optional<SampledLaunch> run_sample(const Side& side, std::span<const ThreadBlockWork> blocks,
                                          const Options& options,
                                          std::vector<LaunchResult>& launches) {
    if (side.launches.size() > 1) return std::nullopt;
    const Launch& launch = *side.launches.front();
    const std::int64_t resident = machine_.limits.sms * occupancy(machine_, launch).thread_blocks;
    const auto plan = plan_sample(blocks, machine_, resident, options.sampling);
    if (!plan) return std::nullopt;
    std::deque<MemoryGroup> before = memory_;
    Grid grid(machine_, side.launches, plan->stretches, memory_);
    grid.keep_moments(plan->dealt);
    LaunchResult result = grid.run(team_, options.progress);
    auto sampled = extrapolate(*plan, grid, blocks, machine_, result);
    if (sampled)
      launches.push_back(std::move(result));
    else
      memory_.swap(before);
    return sampled;
  }

  /// Writes the errors of sampling. Launches are sampled independently, so their variances add.
  void put_errors(const std::vector<std::pair<std::size_t, SampledLaunch>>& sampled,
                  Result& result) const {
    const std::map<std::string, double> found = quantities(result);
    std::map<std::string, double> squares;
    for (const auto& [launch, sample] : sampled) {
      const auto with = [&, &launch = launch](const Totals& totals) {
        Result other{.machine = result.machine, .launches = {}};
        for (const LaunchResult& one : result.launches) {
          LaunchResult& copy = other.launches.emplace_back();
          copy.cycles = one.cycles, copy.sm = one.sm, copy.memory = one.memory;
        }
        LaunchResult& changed = other.launches[launch];
        changed.cycles = totals.cycles, changed.sm = totals.sm, changed.memory = totals.memory;
        return quantities(other);
      };
      std::vector<std::map<std::string, double>> without;
      for (const Totals& totals : sample.without) without.push_back(with(totals));
      const auto early = with(sample.early), late = with(sample.late);
      for (const auto& [name, value] : found) {
        std::vector<double> values;
        for (const auto& one : without) values.push_back(one.at(name));
        const double half = half_interval(value, values, early.at(name), late.at(name));
        squares[name] += half * half;
      }
    }
    for (const auto& [name, square] : squares) result.counter_errors[name] = std::sqrt(square);
    double outlasting_us = 0;
    for (const auto& [launch, sample] : sampled)
      outlasting_us += sample.outlasting / result.machine.clock_mhz;
    result.counter_errors["gpu__time_duration.sum"] += 1e3 * outlasting_us;
    result.time_error =
        (result.counter_errors.extract(kTime).mapped() + outlasting_us) / result.time_us;
  }

  static constexpr const char* kTime = "time of the product";
  /// The quantities with a stated error.
  std::map<std::string, double> quantities(const Result& result) const {
    std::map<std::string, double> all = counters(result);
    all[kTime] = product_us(sides_, result);
    return all;
  }

  const WorkDescription& work_;
  std::vector<Side> sides_;
  const Machine& machine_;
  Team team_;
  std::deque<MemoryGroup> memory_;
};

}  // namespace

SmCounts Result::sm() const {
  SmCounts sum;
  for (const LaunchResult& launch : launches) sum += launch.sm;
  return sum;
}

MemoryCounts Result::memory() const {
  MemoryCounts sum;
  for (const LaunchResult& launch : launches) sum += launch.memory;
  return sum;
}

double Result::cycles() const {
  double sum = 0;
  for (const LaunchResult& launch : launches) sum += launch.cycles;
  return sum;
}

double Result::sampled_share() const {
  double simulated = 0, all = 0;
  for (const LaunchResult& launch : launches) {
    simulated += static_cast<double>(launch.spans.size());
    all += static_cast<double>(launch.spans.size()) / launch.sampled_share;
  }
  return all > 0 ? simulated / all : 1;
}

Result simulate(const WorkDescription& work, const Device& device, const Options& options) {
  return simulate(work, describe(device, work), options);
}

Result simulate(const WorkDescription& work, const Machine& machine, const Options& options) {
  require<Unsupported>(!work.launches.empty(), "{} describes no launches", work.kernel);
  for (const Launch& launch : work.launches)
    require<Unsupported>(launch.trace != nullptr, "{} publishes no trace of its warps",
                         work.kernel);
  require(options.watched < 0 || options.sampling.stretches == 0,
          "thread block {} is watched, so its launch cannot be sampled", options.watched);
  ProductRun product(work, machine);
  if (options.warm) product.warm_up(warm_up_from(work, machine));
  return product.run(options);
}

}  // namespace tessera::simulator
