// The time limit, the interruption and the progress reports of a long reordering.
//
// A reordering calls stop() every few milliseconds of work and, once it returns true, ends with the
// best order so far: a valid permutation, which depends on the machine's speed.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "formats/base/params.hpp"

namespace tessera {

class Watch {
 public:
  /// A watch without a limit and without reports.
  Watch() = default;

  /// stop() calls `interrupted`, if given; `report` receives the completed share, in [0, 1].
  explicit Watch(std::function<bool()> interrupted, std::function<void(double share)> report = {})
      : interrupted_(std::move(interrupted)), report_(std::move(report)) {}

  /// Limits the time from now to `seconds`; 0 is no limit. An earlier limit stays in force.
  void limit(double seconds);

  /// True when the reordering has to end with the best order so far; once true it stays true. Any
  /// thread may call it.
  bool stop();

  /// True when some stop() has returned true: the order is not the algorithm's full result.
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  /// Starts a part of the work, from share `begin` to share `end` of the whole; report() then takes
  /// shares of this part.
  void begin_part(double begin, double end) {
    part_begin_ = begin;
    part_end_ = end;
    report(0);
  }

  /// Reports the completed share, in [0, 1], of the work or of the current part. Any thread may
  /// call it; only calls of the thread that made the watch take effect.
  void report(double share) const {
    if (report_ && std::this_thread::get_id() == owner_)
      report_(part_begin_ + share * (part_end_ - part_begin_));
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline_ = Clock::time_point::max();
  std::function<bool()> interrupted_;
  std::function<void(double)> report_;
  std::thread::id owner_ = std::this_thread::get_id();
  double part_begin_ = 0, part_end_ = 1;
  std::atomic<bool> stopped_ = false;
};

/// The parameter "time_limit_s" of the reorderings that can be stopped; its value is for
/// Watch::limit.
ParamSpec time_limit_param();

}  // namespace tessera
