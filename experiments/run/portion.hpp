// The points of a matrix that a lane has before it, and when it pays to give another lane a part of
// them, which has to read the matrix again.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <utility>

#include "experiments/config/plan.hpp"

namespace tessera {

class Portion {
 public:
  using Clock = std::chrono::steady_clock;

  Portion() = default;
  /// The lane knows the first of these points, and all that follow, by numbers from `first_place`
  /// on.
  explicit Portion(std::deque<const PlanEntry*> entries, std::size_t first_place = 0)
      : left_(std::move(entries)), first_place_(first_place) {}

  bool empty() const { return left_.empty(); }
  const std::deque<const PlanEntry*>& left() const { return left_; }

  /// The next point; there is one.
  const PlanEntry* take();

  /// The lane has done the point of that number, which took `attempt_s` without waiting for other
  /// lanes. One before these points, which may end after they were given, says nothing of them.
  void done(std::size_t place, Clock::time_point now, double attempt_s);

  /// The time that it would save to take the second half of what is left away, the larger one of an
  /// odd number, since the lane works on a point besides: its points take as
  /// long as those before, and first the matrix is read, for as long as the first point took more
  /// than the others. Another lane of the same device saves no time that these points wait for the
  /// device. Not above 0 where that is not known yet.
  double saved_by_split_s(bool same_device) const;

  /// False where that is known not to be above 0; true where it is, or is not known yet.
  bool may_be_split(bool same_device) const;

  /// Takes that half away.
  std::deque<const PlanEntry*> split();

 private:
  std::size_t half() const { return (left_.size() + 1) / 2; }

  std::deque<const PlanEntry*> left_ = {};
  std::size_t first_place_ = 0;
  Clock::time_point first_ = {}, last_ = {};  // first and last point done
  double first_s_ = 0, others_s_ = 0;         // attempts
  int done_ = 0;
};

}  // namespace tessera
