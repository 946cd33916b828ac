// The advisor: of several ways to multiply, each an order of A and a kernel, which one a described
// device runs fastest, by the simulator, and why.
//
// Simulating costs far more than describing, so it is branch and bound: ways are simulated by
// ascending lower bound, and no more once the bound tells that the rest cannot be among the best.
// The roofline would not do as that bound: it charges the L2 with what the L1 answers, and device
// memory with operands of which a part is still in the L2, so that a product can be faster.
// Ways are described one at a time and again for their simulation: one packed matrix is held.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/work.hpp"
#include "model/device.hpp"
#include "model/simulator/machine.hpp"

namespace tessera::advisor {

/// Raised whenever another way may come out first, as after a change of the simulator: part of the
/// identity of a result that was advised.
constexpr int kVersion = 3;

/// Relative: predicted times no further apart are as good as equal. The simulator is 7.1 % off in
/// the mean on an H200 (experiments/results/simulator); between kernels on one matrix a part
/// cancels.
constexpr double kSimulatorError = 0.1;

/// A time that the simulator cannot fall below, and what it takes.
struct LowerBound {
  double time_us = 0;
  std::string bound_by;  // "tensor cores", "load units", "longest thread block", "DRAM", "launch"
};

/// Of what every launch has to push through tensor cores and load units, on the whole and in its
/// largest thread block, of what has to come from device memory, and of the launches. `warm`: the
/// L2 is full of operands. Needs a work description with launches.
LowerBound lower_bound(const WorkDescription& work, const simulator::Machine& machine, bool warm);

/// The launches of a product, and what their traces refer to.
struct Described {
  WorkDescription work;
  std::shared_ptr<const void> packed = {};
};

struct Candidate {
  std::string name;       // for messages: "acc_spmm, best order"
  bool unordered = true;  // takes A in the order that it has
  /// Called once for the bound and once more for the simulation. May throw Unsupported.
  std::function<Described()> describe;
};

/// Where the time of a candidate is from.
enum class Origin {
  kSimulated,  // the simulator
  kModelled,   // the roofline, where simulating was not asked for
  kBound,      // the lower bound: too slow to be worth simulating
};

struct Ranked {
  std::size_t candidate = 0;  // index
  Origin origin = Origin::kBound;
  double time_us = 0;
  std::string bound_by;
  std::string reason;  // one sentence
  LowerBound bound;
};

struct Excluded {
  std::size_t candidate = 0;
  std::string reason;
};

struct Advice {
  std::vector<Ranked> ranked;  // fastest first; those with but a bound come last
  std::vector<Excluded> excluded;

  /// Whether it is as fast as the first, as far as the simulator can tell.
  bool ties_with_best(const Ranked& one) const;
  /// The fastest that takes A as it is; null where there is none with more than a bound.
  const Ranked* fastest_unordered(const std::vector<Candidate>& candidates) const;
};

struct Options {
  bool warm = true;    // the L2 holds what earlier products left there
  bool quick = false;  // nothing is simulated: by the roofline
  /// Called with what is being worked on and which share of that is done.
  std::function<void(const std::string& what, double share)> tell = {};
  /// Asked between candidates: end with what is known.
  std::function<bool()> interrupted = {};
};

/// Equal times rank in the order of the candidates. The fastest candidate without an order, and of
/// all candidates the fastest, always have a simulated time.
Advice rank(const std::vector<Candidate>& candidates, const Device& device,
            const Options& options = {});

/// After how many products the saving makes up for `extra_s` seconds of preparation; none when
/// nothing is saved.
std::optional<std::int64_t> products_until_paid(double extra_s, double saved_us);

}  // namespace tessera::advisor
