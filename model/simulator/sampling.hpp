// Launches of very many thread blocks, simulated in part: the beginning, the end, and stretches of
// consecutive thread blocks between, each from the middle of one of so many parts of equal work.
// They run straight after each other.
//
// Ramp-up and tail are simulated, then, and not guessed. The head of a stretch goes uncounted:
// meanwhile the SMs fill with its thread blocks, and the L2 with what they read. Then comes what is
// measured; at its rates, a unit of described work, the rest of the part is taken to run. As in
// systematic sampling of instructions (Wunderlich et al., SMARTS, ISCA 2003) the spread between
// stretches gives the error; how the second half of what is measured differs from the first tells
// of caches that had not settled, and is added.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/work.hpp"
#include "model/simulator/grid.hpp"
#include "model/simulator/machine.hpp"

namespace tessera::simulator {

/// Which launches are sampled, and how.
struct Sampling {
  int stretches = 0;  // of a launch between its beginning and its end, or as many as fit; 0:
                      // everything is simulated
  double least_bytes =
      0;  // that a launch's thread blocks ask for; smaller ones are simulated whole
};

/// Stretches that an error can be told from.
constexpr int kLeastStretches = 4;

/// Samples what would take minutes: on one core 0.2 to 0.5 GB are simulated in a second.
constexpr Sampling kAutoSampling{.stretches = 8, .least_bytes = 32e9};

/// "off" (or nothing), "auto", or a number of stretches, kLeastStretches or more. Throws an Error
/// for anything else.
Sampling sampling_of(std::string_view text);

/// What is simulated of a launch.
struct SamplePlan {
  std::vector<BlockRange> stretches;  // ascending; the first is the beginning, the last the end
  std::vector<std::int64_t> dealt;    // when each is warm, half measured, over: [3 * stretches]
  std::vector<double> work;           // [stretches] described work of it
  std::vector<double> part;           // [stretches] described work of its part of the launch
};

/// None for a launch that is simulated whole: because it is small, or `sampling` asks for nothing.
/// `resident`: thread blocks that the GPU holds at once.
std::optional<SamplePlan> plan_sample(std::span<const ThreadBlockWork> blocks,
                                      const Machine& machine, std::int64_t resident,
                                      const Sampling& sampling);

/// A launch by its sample, and how it would be by other samples.
struct SampledLaunch {
  Totals whole;                 // the estimate
  std::vector<Totals> without;  // the rates of one left out, of those between beginning and end
  Totals early, late;           // by the first and second halves of what was measured
  double outlasting = 0;        // cycles that a thread block left out may take beyond the estimate
};

/// Extrapolates a run of the plan and puts what it leads to into `result`: counts, cycles, share,
/// spans moved to when they would be. MMAs are taken from the description. None where the sample
/// cannot tell: thread blocks run on into what is measured of later stretches, or one that was left
/// out may end last.
std::optional<SampledLaunch> extrapolate(const SamplePlan& plan, const Grid& grid,
                                         std::span<const ThreadBlockWork> blocks,
                                         const Machine& machine, LaunchResult& result);

/// Half the 95 % interval of a quantity from its values with one stretch left out (jackknife) and
/// from those by early and late halves; in its unit. Never below 1 % of `value`: where stretches
/// agree that well, how they are cut still shows.
double half_interval(double value, const std::vector<double>& without, double early, double late);

}  // namespace tessera::simulator
