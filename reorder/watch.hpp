// Between a long reordering and whoever waits for it: how long it may take, and how far it is.
//
// A reordering asks stop() every few milliseconds of work and, once told so, ends with the best
// order it has: that is still a permutation, but which one depends on the machine's speed.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

#include "formats/base/params.hpp"

namespace tessera {

class Watch {
 public:
  /// Without a limit, and nobody is told anything.
  Watch() = default;

  /// `interrupted`, if given, is asked by stop(); `tell` gets the share that is done, in [0, 1].
  explicit Watch(std::function<bool()> interrupted, std::function<void(double share)> tell = {})
      : interrupted_(std::move(interrupted)), tell_(std::move(tell)) {}

  /// At most this long from now; 0 is no limit. An earlier limit stays.
  void limit(double seconds);

  /// Whether to end with the best so far. Once true it stays so. Any thread may ask.
  bool stop();

  /// Whether the order was cut short: some stop() said so.
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  /// How much of the work is done. Only from the thread that called the reordering.
  void tell(double share) const {
    if (tell_) tell_(share);
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline_ = Clock::time_point::max();
  std::function<bool()> interrupted_;
  std::function<void(double)> tell_;
  std::atomic<bool> stopped_ = false;
};

/// The parameter "time_limit_s" of the reorderings that can be cut short; its value is for
/// Watch::limit.
ParamSpec time_limit_param();

}  // namespace tessera
