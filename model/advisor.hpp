// The advisor: which of several ways to make a product, each an order of A with a kernel, a
// described device runs fastest, and why. It is the policy "predict" of formats/base/choice.hpp.
//
// Simulating an alternative costs far more than describing its work, so the choice is a branch and
// bound: alternatives are simulated by ascending lower bound, until the next bound shows that the
// rest cannot be among the fastest. The roofline cannot serve as that bound: it charges the L2 with
// requests that the L1 answers, and device memory with operands that are partly still in the L2, so
// a product can be faster than its roofline. An alternative is described once for its bound and
// again for its simulation: only one packed matrix is in memory at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/base/choice.hpp"
#include "kernels/work.hpp"
#include "model/device.hpp"
#include "model/simulator/machine.hpp"

namespace tessera::advisor {

/// The version of the ranking. It grows whenever another alternative may come first, as after a
/// change of the simulator, and is part of the identity of a result that the advisor chose.
constexpr int kVersion = 4;

/// Relative: predicted times no further apart count as equal. The mean error of the simulator on an
/// H200 is 7.1 % (experiments/results/simulator); between kernels on one matrix a part of it
/// cancels.
constexpr double kSimulatorError = 0.1;

/// A time that the simulator cannot fall below: the largest of the time that the launches need in
/// tensor cores and load units (all thread blocks spread evenly over the SMs, or the largest thread
/// block alone), the time that operands from device memory need, and the cost of the launches.
/// `warm`: the L2 is full of operands. The work description needs launches.
LowerBound lower_bound(const WorkDescription& work, const simulator::Machine& machine, bool warm);

/// The work of a product, and the owner of the data to which its traces refer.
struct Described {
  WorkDescription work;
  std::shared_ptr<const void> packed = {};
};

/// An order of A with a kernel.
struct Alternative {
  std::string name;         // for messages: "acc_spmm, order best"
  bool keeps_order = true;  // A stays in its given order: the baseline for gains of reordering
  /// Called once for the bound and once more for the simulation. May throw Unsupported.
  std::function<Described()> describe;
};

struct Options {
  bool warm = true;    // the L2 holds operands of earlier products
  bool quick = false;  // rank by the roofline, without simulating
  /// Called with the current piece of work and the share of it that is done.
  std::function<void(const std::string& what, double share)> progress = {};
  /// Called with every alternative that got a bound or a time, and with that.
  std::function<void(const Alternative& alternative, const Rating& rating)> rated = {};
  /// Polled between alternatives and within simulations. When it returns true, the ranking rests on
  /// what is known by then.
  std::function<bool()> interrupted = {};
};

/// Ranks the alternatives by predicted time; equal times keep their order. The fastest alternative
/// of all and the fastest one that keeps the order of A have a simulated time (with `quick`, all
/// have the roofline's). Variants that cannot be described, or not predicted on the device, are
/// excluded.
Decision rank(const std::vector<Alternative>& alternatives, const Device& device,
              const Options& options = {});

/// The alternatives that an interrupted ranking has not considered: those without a bound, and
/// those that their bound, the only thing known, does not rule out. Empty for a whole ranking.
std::vector<std::size_t> not_considered(const Decision& decision,
                                        const std::vector<Alternative>& alternatives);

/// The fastest alternative that keeps the order of A and has more than a bound; null when there is
/// none.
const Rating* fastest_in_given_order(const Decision& decision,
                                     const std::vector<Alternative>& alternatives);

/// The number of products after which the saved time makes up for `extra_s` seconds of preparation;
/// empty when nothing is saved.
std::optional<std::int64_t> products_until_paid(double extra_s, double saved_us);

}  // namespace tessera::advisor
