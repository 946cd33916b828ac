#include "experiments/run/portion.hpp"

#include <algorithm>

namespace tessera {

const PlanEntry* Portion::take() {
  const PlanEntry* entry = left_.front();
  left_.pop_front();
  return entry;
}

void Portion::done(std::size_t place, Clock::time_point now, double attempt_s) {
  if (place < first_place_) return;
  (++done_ == 1 ? first_s_ : others_s_) += attempt_s;
  if (done_ == 1) first_ = now;
  last_ = now;
}

double Portion::saved_by_split_s() const {
  if (done_ < 2) return 0;
  const std::chrono::duration<double> others = last_ - first_;
  const double reading_s = std::max(first_s_ - others_s_ / (done_ - 1), 0.0);
  return static_cast<double>(left_.size() / 2) * others.count() / (done_ - 1) - reading_s;
}

bool Portion::may_be_split() const {
  return left_.size() >= 2 && (done_ < 2 || saved_by_split_s() > 0);
}

std::deque<const PlanEntry*> Portion::split() {
  const auto half = left_.end() - static_cast<std::ptrdiff_t>(left_.size() / 2);
  std::deque<const PlanEntry*> taken(half, left_.end());
  left_.erase(half, left_.end());
  return taken;
}

}  // namespace tessera
