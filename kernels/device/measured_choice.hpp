// The choice of a plan among candidate kernels by time: the policy "measure" of
// formats/base/choice.hpp, for any operation. Every candidate is packed, uploaded and timed; at
// most two are on the device at a time, the fastest so far and the one that is timed.
#pragma once

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/choice.hpp"
#include "kernels/device/median_time.hpp"

namespace tessera {

/// `Uploaded` is a packed A with its kernel on the device: its `candidate` has every parameter
/// filled in, its `us` is the median time of a product, 0 when it was not timed.
/// `upload(candidate)` makes one, `time(uploaded, timing)` times it; both throw Unsupported for a
/// candidate that cannot be used.
template <class Uploaded, class Named, class Timing, class Upload, class Time>
class MeasuredChoice final : public Policy {
 public:
  MeasuredChoice(const std::vector<Named>& candidates, std::vector<Timing>& timings, Upload upload,
                 Time time)
      : candidates_(candidates),
        timings_(timings),
        upload_(std::move(upload)),
        time_(std::move(time)) {}

  std::string name() const override { return "measure"; }

  Rating screen(std::size_t candidate) override {
    Timing& timing = timings_.emplace_back(Timing{.candidate = candidates_[candidate]});
    try {
      Uploaded next = upload_(candidates_[candidate]);
      timing.candidate = next.candidate;
      time_(next, timing);
      timing.us = next.us;
      if (!fastest_.gpu || next.us < fastest_.us) fastest_ = std::move(next), index_ = candidate;
    } catch (const Unsupported& error) {
      timing.problem = error.what();
      throw;
    }
    return {.origin = Origin::kMeasured,
            .time_us = timing.us,
            .reason = timing.us > 0 ? fmt::format("median of {} samples on this GPU", kTimeSamples)
                                    : "there is no other candidate"};
  }

  /// The chosen candidate, which leaves the policy.
  Uploaded take([[maybe_unused]] const Rating& chosen) {
    assert(chosen.candidate == index_);
    return std::move(fastest_);
  }

 private:
  const std::vector<Named>& candidates_;
  std::vector<Timing>& timings_;  // one for each screened candidate
  Upload upload_;
  Time time_;
  Uploaded fastest_;
  std::size_t index_ = 0;  // of fastest_
};

/// Times the candidates, lists their times, and returns the fastest, on the device. Throws
/// Unsupported, with every candidate's reason, when none can be used.
template <class Uploaded, class Named, class Timing, class Upload, class Time>
Uploaded choose_by_time(const std::vector<Named>& candidates, std::vector<Timing>& timings,
                        Upload upload, Time time) {
  std::vector<Candidate> named;
  for (const Named& candidate : candidates) named.push_back({.name = candidate.kernel});
  MeasuredChoice<Uploaded, Named, Timing, Upload, Time> policy(candidates, timings,
                                                               std::move(upload), std::move(time));
  const Decision decision = decide(named, policy);
  require<Unsupported>(!decision.ranked.empty(), "no kernel takes this product:{}",
                       decision.exclusions("\n  ", [&](std::size_t i) { return named[i].name; }));
  return policy.take(decision.chosen());
}

}  // namespace tessera
