// Sampling of launches with very many thread blocks. The beginning, the end, and stretches of
// consecutive thread blocks between them are simulated, without a pause between them; each stretch
// is from the middle of one of several parts of equal work.
//
// So ramp-up and tail are simulated, not extrapolated. The head of a stretch does not count: during
// it the SMs fill with its thread blocks, and the L2 with their data. The rest of the stretch is
// measured, and the remaining work of its part is assumed to run at the measured rates per unit of
// described work. As in systematic sampling of instructions (Wunderlich et al., SMARTS, ISCA 2003)
// the spread between stretches gives the error; the difference between the two halves of the
// measured part shows caches that had not settled, and is added.
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

/// The choice of launches to sample, and the number of stretches.
struct Sampling {
  int stretches = 0;       // between the beginning and the end of a launch, fewer if they do not
                           // fit; 0: everything is simulated
  double least_bytes = 0;  // launches that request fewer bytes are simulated whole
};

/// The least number of stretches that gives an error estimate.
constexpr int kLeastStretches = 4;

/// Samples launches that would take minutes: one core simulates 0.2 to 0.5 GB per second.
constexpr Sampling kAutoSampling{.stretches = 8, .least_bytes = 32e9};

/// The sampling of the text "off" (or ""), "auto", or a number of stretches of at least
/// kLeastStretches. Throws an Error for any other text.
Sampling sampling_of(std::string_view text);

/// The simulated parts of a launch.
struct SamplePlan {
  std::vector<BlockRange> stretches;  // ascending; the first is the beginning, the last the end
  std::vector<std::int64_t> dealt;    // [3 * stretches] started thread blocks when each stretch is
                                      // warm, half measured and over
  std::vector<double> work;           // [stretches] described work of the stretch
  std::vector<double> part;           // [stretches] described work of its part of the launch
};

/// The plan of a launch; empty when it is simulated whole, because it is small or `sampling` is
/// off. `resident` is the number of thread blocks that the GPU holds at once.
std::optional<SamplePlan> plan_sample(std::span<const ThreadBlockWork> blocks,
                                      const Machine& machine, std::int64_t resident,
                                      const Sampling& sampling);

/// The estimate of a launch from its sample, and the estimates of other samples.
struct SampledLaunch {
  Totals whole;                 // the estimate
  std::vector<Totals> without;  // estimates without the rates of one stretch between the ends
  Totals early, late;           // estimates from the first and second halves of the measured parts
  double outlasting = 0;        // cycles by which an omitted thread block may outlast the estimate
};

/// Extrapolates a run of the plan and writes the counts, the cycles, the simulated share and the
/// spans, moved to their estimated times, to `result`. MMAs come from the description. Empty when
/// the sample is not representative: thread blocks of a stretch run on into the measured part of
/// later ones, or an omitted thread block may end last.
std::optional<SampledLaunch> extrapolate(const SamplePlan& plan, const Grid& grid,
                                         std::span<const ThreadBlockWork> blocks,
                                         const Machine& machine, LaunchResult& result);

/// Half the 95 % interval of a quantity, in its unit, from its estimates with one stretch left out
/// (jackknife) and from those of early and late halves. At least 1 % of `value`: even when
/// stretches agree that well, the result depends on how they are cut.
double half_interval(double value, const std::vector<double>& without, double early, double late);

}  // namespace tessera::simulator
