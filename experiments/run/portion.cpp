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

double Portion::saved_by_split_s(bool same_device) const {
  if (done_ < 2) return 0;
  const int others = done_ - 1;
  const double working_s = others_s_ / others;
  const double passing_s = std::chrono::duration<double>(last_ - first_).count() / others;
  const double reading_s = std::max(first_s_ - working_s, 0.0);
  return static_cast<double>(half()) * (same_device ? working_s : passing_s) - reading_s;
}

bool Portion::may_be_split(bool same_device) const {
  return !left_.empty() && (done_ < 2 || saved_by_split_s(same_device) > 0);
}

std::deque<const PlanEntry*> Portion::split() {
  const auto first = left_.end() - static_cast<std::ptrdiff_t>(half());
  std::deque<const PlanEntry*> taken(first, left_.end());
  left_.erase(first, left_.end());
  return taken;
}

}  // namespace tessera
