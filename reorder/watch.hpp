// Between a long reordering and whoever waits for it: how long it may take, and how far it is.
//
// A reordering asks stop() every few milliseconds of work and, once told so, ends with the best
// order it has: that is still a permutation, but which one depends on the machine's speed.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

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

  /// From here on shares are of a part of the work, which goes from `begin` to `end` of the whole.
  void begin_part(double begin, double end) {
    part_begin_ = begin;
    part_end_ = end;
    tell(0);
  }

  /// How much of the work, or of the part that has begun, is done. Any thread may say so; only the
  /// one that made the watch is heard.
  void tell(double share) const {
    if (tell_ && std::this_thread::get_id() == owner_)
      tell_(part_begin_ + share * (part_end_ - part_begin_));
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline_ = Clock::time_point::max();
  std::function<bool()> interrupted_;
  std::function<void(double)> tell_;
  std::thread::id owner_ = std::this_thread::get_id();
  double part_begin_ = 0, part_end_ = 1;
  std::atomic<bool> stopped_ = false;
};

/// The parameter "time_limit_s" of the reorderings that can be cut short; its value is for
/// Watch::limit.
ParamSpec time_limit_param();

}  // namespace tessera
