// A device whose launches are timed: its stream, its clock and the host's.
//
// The GPU is one (launch_timer.hpp). The tests have others, whose clocks they set, and that cheat.
#pragma once

#include <cstdint>

#include "experiments/machine/gpu_load.hpp"

namespace tessera {

class TimedDevice {
 public:
  virtual ~TimedDevice() = default;

  /// Enqueues the emptying of the L2, persisting lines included.
  virtual void empty_l2() = 0;
  /// Enqueues the start of a measurement.
  virtual void start() = 0;
  /// What the host can do before `count` launches are enqueued. Nothing is enqueued yet.
  virtual void prepare(std::int64_t count) = 0;
  /// Enqueues `count` launches, one behind the other, for which prepare() was called.
  virtual void launch(std::int64_t count) = 0;
  /// Enqueues the stop, waits until the stream has reached it, and gives the time since the start
  /// by the device's clock, in microseconds.
  virtual double stop_us() = 0;
  /// Waits until nothing runs on the device any more, whatever its stream.
  virtual void finish() = 0;
  /// The host's clock, in microseconds.
  virtual double host_us() = 0;
  /// The bytes of the L2 that are set aside for persisting lines; gives them back.
  virtual std::int64_t take_back_l2() = 0;
  virtual GpuLoad load() = 0;
};

}  // namespace tessera
