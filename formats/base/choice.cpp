#include "formats/base/choice.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

/// The best times so far, of all candidates and of the baselines.
class BestTimes {
 public:
  void note(const Rating& rating, const Candidate& candidate) {
    all_ = std::min(all_, rating.time_us);
    if (candidate.is_baseline) baselines_ = std::min(baselines_, rating.time_us);
  }
  /// The time that a candidate has to beat.
  double limit(const Candidate& candidate) const {
    return candidate.is_baseline ? baselines_ : all_;
  }

 private:
  double all_ = std::numeric_limits<double>::infinity();
  double baselines_ = std::numeric_limits<double>::infinity();
};

void screen_all(const std::vector<Candidate>& candidates, Policy& policy,
                const DecideOptions& options, Decision& decision) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (options.interrupted && options.interrupted()) return;
    const auto share = static_cast<double>(i) / static_cast<double>(candidates.size());
    if (options.progress) options.progress("screening " + candidates[i].name, share);
    try {
      Rating rating = policy.screen(i);
      rating.candidate = i;
      decision.ranked.push_back(std::move(rating));
    } catch (const Unsupported& error) {
      decision.excluded.push_back({i, error.what()});
    }
  }
}

/// Replaces bounds by times, as far as the candidates can still be among the fastest.
void refine_all(const std::vector<Candidate>& candidates, Policy& policy,
                const DecideOptions& options, Decision& decision) {
  std::ranges::stable_sort(decision.ranked, {}, &Rating::time_us);
  BestTimes best;
  for (const Rating& rating : decision.ranked)
    if (rating.origin != Origin::kBound) best.note(rating, candidates[rating.candidate]);
  for (std::size_t i = 0; i < decision.ranked.size(); ++i) {
    Rating& rating = decision.ranked[i];
    if (rating.origin != Origin::kBound) continue;
    const Candidate& candidate = candidates[rating.candidate];
    const bool hopeless = rating.time_us > (1 + decision.tolerance) * best.limit(candidate);
    if (hopeless || (options.interrupted && options.interrupted())) continue;
    std::function<void(double)> progress;
    if (options.progress)
      progress = [&, what = fmt::format("{} ({} of {})", candidate.name, i + 1,
                                        decision.ranked.size())](double share) {
        options.progress(what, share);
      };
    if (progress) progress(0);
    const std::size_t index = rating.candidate;
    rating = policy.refine(rating, progress);
    rating.candidate = index;
    // A policy that was interrupted returns the bound.
    if (rating.origin != Origin::kBound) best.note(rating, candidate);
  }
}

}  // namespace

const Rating& Decision::chosen() const {
  require<Unsupported>(!ranked.empty(), "there is no candidate that can be used");
  return ranked.front();
}

bool Decision::ties_with_chosen(const Rating& one) const {
  return !ranked.empty() && one.origin != Origin::kBound &&
         one.time_us <= (1 + tolerance) * ranked.front().time_us;
}

std::string Decision::exclusions(std::string_view separator,
                                 const std::function<std::string(std::size_t)>& name_of) const {
  std::string text;
  for (const Excluded& one : excluded)
    text += fmt::format("{}{}: {}", separator, name_of(one.candidate), one.reason);
  return text;
}

Rating Policy::refine(const Rating& bound, const std::function<void(double)>&) { return bound; }

Decision decide(const std::vector<Candidate>& candidates, Policy& policy,
                const DecideOptions& options) {
  Decision decision{
      .policy = policy.name(), .tolerance = policy.tolerance(), .ranked = {}, .excluded = {}};
  screen_all(candidates, policy, options, decision);
  refine_all(candidates, policy, options, decision);
  std::ranges::sort(decision.ranked, {}, [](const Rating& one) {
    return std::tuple(one.origin == Origin::kBound, one.time_us, one.candidate);
  });
  return decision;
}

double WorkCounts::at(std::string_view name) const {
  const auto found = counts_.find(name);
  if (found != counts_.end()) return found->second;
  std::string names;
  for (const auto& [known, count] : counts_) names += (names.empty() ? "" : ", ") + known;
  throw Error(fmt::format("the cost model needs the count '{}'; the kernel publishes {}", name,
                          names.empty() ? "none" : names));
}

Rating CostModelPolicy::screen(std::size_t candidate) {
  const CountedKernel& one = kernels_->at(candidate);
  const auto& models = Registry<CostModel>::instance();
  require<Unsupported>(models.contains(one.kernel), "{} has no cost model", one.kernel);
  return models.make(one.kernel)->rate(one.counts, one.params, device_);
}

}  // namespace tessera
