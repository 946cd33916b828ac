#include "reorder/watch.hpp"

#include <algorithm>

namespace tessera {

void Watch::limit(double seconds) {
  // A limit beyond the clock's finite range is no limit.
  constexpr double kFar = 1e8;
  if (seconds <= 0 || seconds > kFar) return;
  const auto span =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  deadline_ = std::min(deadline_, Clock::now() + span);
}

bool Watch::stop() {
  if (stopped()) return true;
  const bool now = (deadline_ != Clock::time_point::max() && Clock::now() >= deadline_) ||
                   (interrupted_ && interrupted_());
  if (now) stopped_.store(true, std::memory_order_relaxed);
  return now;
}

ParamSpec time_limit_param() {
  return {.name = "time_limit_s",
          .fallback = 0.0,
          .help = "seconds until the search ends with the best order so far; 0: no limit",
          .min = 0};
}

}  // namespace tessera
