// The points of a matrix that a worker has before it, and when it pays to give another worker a
// part of them, which has to read the matrix again.
#pragma once

#include <chrono>
#include <deque>

#include "experiments/config/plan.hpp"

namespace tessera {

class Portion {
 public:
  using Clock = std::chrono::steady_clock;

  Portion() = default;
  explicit Portion(std::deque<const PlanEntry*> entries) : left_(std::move(entries)) {}

  bool empty() const { return left_.empty(); }
  const std::deque<const PlanEntry*>& left() const { return left_; }

  /// The next point; there is one.
  const PlanEntry* take();

  /// A point was done, which took `attempt_s` without waiting for other workers.
  void done(Clock::time_point now, double attempt_s);

  /// The time that it would save to take the second half of what is left away: its points take as
  /// long as those before, and first the matrix is read, for as long as the first point took more
  /// than the others. Not above 0 where that is not known yet.
  double saved_by_split_s() const;

  /// False when that is not above 0, and will not be: of a portion that is told soon, true.
  bool may_be_split() const;

  /// Takes that half away.
  std::deque<const PlanEntry*> split();

 private:
  std::deque<const PlanEntry*> left_ = {};
  Clock::time_point first_ = {}, last_ = {};  // first and last point done
  double first_s_ = 0, others_s_ = 0;         // attempts
  int done_ = 0;
};

}  // namespace tessera
