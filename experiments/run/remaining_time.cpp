#include "experiments/run/remaining_time.hpp"

#include <algorithm>

namespace tessera {

void RemainingTime::expect(const std::string& kind, double cost) {
  ++kinds_[kind].left;
  kinds_[kind].cost_left += cost;
}

void RemainingTime::learn(const std::string& name, double cost, double seconds) {
  Kind& kind = kinds_[name];
  ++kind.ran;
  kind.per_cost += 1 / cost;
  kind.per_square += 1 / (cost * cost);
  kind.seconds_per_cost += seconds / cost;
  kind.seconds_per_square += seconds / (cost * cost);
}

void RemainingTime::remove(const std::string& name, double cost) {
  Kind& kind = kinds_[name];
  --kind.left;
  kind.cost_left = kind.left > 0 ? std::max(kind.cost_left - cost, 0.0) : 0;
}

/// By the line own + rate * cost through the times, each weighted by 1 / cost^2; neither part is
/// negative. Points of one cost are in proportion to it.
double RemainingTime::seconds_left(const Kind& kind) {
  const double determinant = kind.per_square * kind.ran - kind.per_cost * kind.per_cost;
  double own = 0, rate = kind.seconds_per_cost / kind.ran;
  if (determinant > 1e-9 * kind.per_square * kind.ran) {
    own =
        (kind.seconds_per_square * kind.ran - kind.per_cost * kind.seconds_per_cost) / determinant;
    own = std::clamp(own, 0.0, kind.seconds_per_square / kind.per_square);
    rate = std::max((kind.seconds_per_cost - own * kind.per_cost) / kind.ran, 0.0);
  }
  return kind.left * own + rate * kind.cost_left;
}

std::optional<double> RemainingTime::estimate() const {
  double seconds = 0;
  bool has_run = false;
  for (const auto& [name, kind] : kinds_) {
    has_run |= kind.ran > 0;
    if (kind.left == 0 || (kind.ran == 0 && kind.skipped > 0)) continue;
    if (kind.ran == 0) return std::nullopt;
    seconds += seconds_left(kind);
  }
  if (!has_run) return std::nullopt;
  return seconds / jobs_;
}

std::optional<double> RemainingTime::tell(double now) {
  const std::optional<double> found = estimate();
  if (!found) return std::nullopt;
  if (found != estimated_) changed_at_ = now;
  estimated_ = found;
  // The point that runs has used up some of it.
  const double left = std::max(*found - (now - changed_at_), 0.0);
  if (!told_ || left < *told_ || left > 1.5 * *told_) told_ = left;
  return told_;
}

}  // namespace tessera
