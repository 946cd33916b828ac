// The progress of an advice on stderr: the work done and the remaining time.
#pragma once

#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "experiments/run/progress.hpp"
#include "experiments/run/remaining_time.hpp"
#include "model/advisor.hpp"

namespace tessera {

/// The time left of screening and simulating candidates. A simulation takes as long as its lower
/// bound lets expect; candidates that can no longer be among the fastest are not simulated.
class AdviceTime {
 public:
  /// `candidates` are screened, then simulated.
  explicit AdviceTime(std::size_t candidates);

  /// A candidate has got a bound or a time, `now` seconds after the start.
  void rated(const advisor::Alternative& one, const Rating& rating, double now);

  /// Seconds; empty while nothing is known.
  std::optional<double> tell(double now) { return remaining_.tell(now); }

 private:
  struct Pending {
    double bound_us;
    bool keeps_order;
  };

  void forget_hopeless();

  RemainingTime remaining_;
  double last_ = 0;                         // when the last candidate was rated
  std::map<std::string, Pending> pending_;  // candidates with a bound, by name
  double best_ = std::numeric_limits<double>::infinity();
  double best_in_order_ = std::numeric_limits<double>::infinity();
};

/// One line that renews itself. On a terminal every simulated time stays above it.
class AdviceProgress {
 public:
  /// The search for an order, of which only the share is known.
  void find_order(const std::string& what, double share) { show(what, share, std::nullopt); }

  void start(std::size_t candidates);
  void work_on(const std::string& what, double share);
  void rated(const advisor::Alternative& one, const Rating& rating);

 private:
  void show(const std::string& what, double share, std::optional<double> left);
  double seconds() const;

  std::chrono::steady_clock::time_point start_;
  std::optional<AdviceTime> time_;
  std::string what_;
  std::optional<ShareProgress> line_;
};

}  // namespace tessera
