#include "experiments/run/advice_progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace tessera {
namespace {

constexpr const char* kScreening = "screening";
constexpr const char* kSimulating = "simulating";

// Until a simulation has ended: one of a product of 10 us takes about two seconds on two cores.
constexpr double kTypicalUs = 10, kTypicalSeconds = 2;

}  // namespace

AdviceTime::AdviceTime(std::size_t candidates) {
  for (std::size_t i = 0; i < candidates; ++i) remaining_.expect(kScreening, 1);
  remaining_.learn(kSimulating, kTypicalUs, kTypicalSeconds);
}

void AdviceTime::rated(const advisor::Alternative& one, const Rating& rating, double now) {
  const double took = now - last_;
  last_ = now;
  if (rating.origin == Origin::kSimulated) {
    remaining_.learn(kSimulating, rating.bound.time_us, took);
    best_ = std::min(best_, rating.time_us);
    if (one.keeps_order) best_in_order_ = std::min(best_in_order_, rating.time_us);
    if (const auto found = pending_.find(one.name); found != pending_.end()) {
      remaining_.remove(kSimulating, found->second.bound_us);
      pending_.erase(found);
    }
    return forget_hopeless();
  }
  remaining_.learn(kScreening, 1, took);
  remaining_.remove(kScreening, 1);
  if (rating.origin != Origin::kBound) return;  // the roofline: nothing is simulated
  pending_[one.name] = {rating.time_us, one.keeps_order};
  remaining_.expect(kSimulating, rating.time_us);
}

void AdviceTime::forget_hopeless() {
  std::erase_if(pending_, [&](const auto& candidate) {
    const auto& [name, one] = candidate;
    const double best = one.keeps_order ? best_in_order_ : best_;
    if (one.bound_us <= (1 + advisor::kSimulatorError) * best) return false;
    remaining_.remove(kSimulating, one.bound_us);
    return true;
  });
}

void AdviceProgress::start(std::size_t candidates) {
  start_ = std::chrono::steady_clock::now();
  time_.emplace(candidates);
}

double AdviceProgress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void AdviceProgress::work_on(const std::string& what, double share) {
  show(what, share, time_->tell(seconds()));
}

void AdviceProgress::rated(const advisor::Alternative& one, const Rating& rating) {
  time_->rated(one, rating, seconds());
  if (rating.origin != Origin::kSimulated || isatty(STDERR_FILENO) == 0) return;
  line_.reset();
  fmt::print(stderr, "{:>9.2f} us  {}\n", rating.time_us, one.name);
}

void AdviceProgress::show(const std::string& what, double share, std::optional<double> left) {
  if (what != what_ || !line_) {
    line_.reset();
    line_.emplace(what_ = what);
  }
  line_->tell(share, left);
}

}  // namespace tessera
