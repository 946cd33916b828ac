// One way to choose among variants that do the same work: candidates in, one decision out, with the
// reason and the figures that it rests on.
//
// A policy rates the candidates; decide() asks it and ranks them. There are three policies:
//   predict   a performance model rates work descriptions (model/advisor.hpp: the simulator, or the
//             roofline);
//   model     a closed formula rates counts that a kernel finds in O(nonzeros) (CostModelPolicy
//             below; the formulas are those of model/);
//   measure   every candidate is timed on the GPU (kernels/spmm/plan/spmm_plan.hpp).
// This header knows no matrix, no kernel and no model. Kernels and models include it and meet here,
// so that no kernel includes a model. A candidate is a name and its place in the caller's list;
// what a policy needs of it, the policy has itself: a policy that predicts never holds a way to
// measure.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/base/params.hpp"

namespace tessera {

struct Candidate {
  std::string name;  // for messages: "acc_spmm, order best"
  /// The fastest baseline always gets a time, not only a lower bound: gains are relative to it.
  bool is_baseline = true;
};

/// The source of a candidate's time.
enum class Origin {
  kMeasured,   // timed on a GPU
  kSimulated,  // the simulator
  kModelled,   // a closed formula
  kBound,      // a lower bound: the candidate is too slow to be worth more effort
};

/// A time that a product cannot fall below, and the resource that needs it.
struct LowerBound {
  double time_us = 0;
  std::string bound_by = {};  // "tensor cores", "DRAM", ...
};

/// The time of one candidate, and what the time rests on.
struct Rating {
  std::size_t candidate = 0;  // index, filled in by decide()
  Origin origin = Origin::kBound;
  double time_us = 0;
  std::string bound_by = {};  // the part that decides the time, where the policy knows it
  std::string reason = {};    // one sentence
  LowerBound bound = {};      // where the policy finds one
};

struct Excluded {
  std::size_t candidate = 0;  // index
  std::string reason;
};

struct Decision {
  std::string policy;              // "predict", "model" or "measure"
  double tolerance = 0;            // relative: times no further apart count as equal
  std::vector<Rating> ranked;      // fastest first; ratings that are only bounds come last
  std::vector<Excluded> excluded;  // in the order of the candidates

  /// The fastest candidate. Throws Unsupported when every candidate is excluded.
  const Rating& chosen() const;

  /// True when the policy cannot tell the candidate's time from that of the chosen one.
  bool ties_with_chosen(const Rating& one) const;

  /// The excluded candidates with their reasons, each as separator + "name: reason".
  std::string exclusions(std::string_view separator,
                         const std::function<std::string(std::size_t)>& name_of) const;
};

/// Rates candidates, which it knows by their index.
class Policy {
 public:
  virtual ~Policy() = default;

  /// "predict", "model" or "measure".
  virtual std::string name() const = 0;

  /// The relative error of the policy's times, as far as it changes a ranking.
  virtual double tolerance() const { return 0; }

  /// The candidate's time or, where that is expensive to find, a lower bound of it (origin kBound).
  /// Called once for each candidate, in their order. Throws Unsupported for a candidate that cannot
  /// be used; decide() excludes it for that reason.
  virtual Rating screen(std::size_t candidate) = 0;

  /// The time of a candidate for which screen() gave a bound. `progress` takes the share of the
  /// work that is done; it may be empty. A policy whose screen() gives times is never asked.
  virtual Rating refine(const Rating& bound, const std::function<void(double share)>& progress);
};

struct DecideOptions {
  /// Called with the current piece of work and the share of it that is done.
  std::function<void(const std::string& what, double share)> progress = {};
  /// Polled between candidates. When it returns true, the decision rests on what is known by then.
  std::function<bool()> interrupted = {};
};

/// Rates all candidates and ranks them by time; equal times keep the order of the candidates.
///
/// Bounds make it a branch and bound: candidates that screen() only bounds are refined by ascending
/// bound, until the next bound exceeds the best time known by more than the policy's tolerance. The
/// fastest of all candidates and the fastest baseline are always refined, unless interrupted.
/// Passes on every exception of the policy other than Unsupported.
Decision decide(const std::vector<Candidate>& candidates, Policy& policy,
                const DecideOptions& options = {});

/// Numbers that a kernel publishes about one product, by name: the input of its cost model.
class WorkCounts {
 public:
  WorkCounts() = default;
  WorkCounts(std::initializer_list<std::pair<const std::string, double>> counts)
      : counts_(counts) {}

  /// Throws an Error that lists the names there are when this one is not among them.
  double at(std::string_view name) const;
  /// A reference to the count of this name, 0 before it is set.
  double& operator[](const std::string& name) { return counts_[name]; }

  const std::map<std::string, double, std::less<>>& all() const { return counts_; }

 private:
  std::map<std::string, double, std::less<>> counts_;
};

/// A kernel's time in closed form. Registered under the kernel's name.
class CostModel {
 public:
  static constexpr const char* kKind = "cost model";
  virtual ~CostModel() = default;

  /// The time of one product by the kernel with these parameters (origin kModelled). Throws an
  /// Error for an unknown device or a count that is absent, Unsupported for a device whose file
  /// lacks a rate that the formula needs.
  virtual Rating rate(const WorkCounts& counts, const Params& params,
                      const std::string& device) const = 0;
};

/// A kernel with what its cost model needs.
struct CountedKernel {
  std::string kernel;
  Params params;
  WorkCounts counts;
};

/// The policy "model": each candidate is rated by the cost model registered under its kernel's
/// name.
class CostModelPolicy final : public Policy {
 public:
  CostModelPolicy(const std::vector<CountedKernel>& kernels, std::string device)
      : kernels_(&kernels), device_(std::move(device)) {}

  std::string name() const override { return "model"; }
  Rating screen(std::size_t candidate) override;

 private:
  const std::vector<CountedKernel>* kernels_;  // [candidates]
  std::string device_;
};

}  // namespace tessera
