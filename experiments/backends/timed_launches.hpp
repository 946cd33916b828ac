// The samples of a launch's time, and the checks that tell whether they can be trusted.
//
// Warm: a batch is as many launches as last 100 us, so that neither the resolution of the clock nor
// the cost of a launch decides; launches that a CUDA graph replays last 500 us, since the beginning
// of a graph takes some microseconds. Flush: a batch is one launch, submitted by the host, and the
// L2 is emptied before it.
// Sampling ends when the standard error of the mean is below the rule's noise, within the rule's
// limits on samples and seconds; the warm-up before has the same limit in seconds.
//
// Samples during which the clocks were lowered are taken again, twice at most. After the samples, a
// batch of 2 ms shows that the device's clock agrees with the host's, and that nothing works after
// the stop: a launch that hides its work on another stream, or a clock that was tampered with, is a
// fault. So is a part of the L2 that outlasts the emptying. Faults stand beside the time in the
// record: the limits by which they are found are those of a host that may be interrupted.
#pragma once

#include <string>

#include "experiments/backends/timed_device.hpp"
#include "experiments/points/point.hpp"
#include "experiments/records/record.hpp"

namespace tessera {

struct LaunchTimes {
  TimeSummary summary = {};
  std::string disturbed = {};     // what slowed the GPU down in these samples; empty when nothing
  std::int64_t measurements = 1;  // until nothing lowered the clocks, or no more were made
  std::string fault = {};         // why the time cannot be trusted; empty when it can
};

LaunchTimes time_launches(TimedDevice& device, const MeasureRule& rule);

/// Whether the launches of a sample are a CUDA graph.
bool replays(const MeasureRule& rule);

/// The times as a record has them.
TimePart time_part(const LaunchTimes& times, const MeasureRule& rule);

/// A product whose launches may be repeated, and whose operands may change in place in between.
class RepeatedProduct {
 public:
  virtual ~RepeatedProduct() = default;

  /// Writes the operand and the result anew, with what they hold.
  virtual void rewrite() = 0;
  /// Writes the same memory, but with the operand negated and the result poisoned.
  virtual void change() = 0;
  /// The time of one launch by the device's clock, in microseconds.
  virtual double launch_us() = 0;
};

/// Why repeated launches are not the work of the first: a launch after a change takes far longer
/// than one without. Empty when it does not. The product is left after a launch.
std::string repeat_fault(RepeatedProduct& product);

}  // namespace tessera
