// The interface of a source of hardware counters: what a product did on the GPU, under the metric
// names of NVIDIA's tools.
//
// The kernels of a product are counted one by one and combined by launch_counts.hpp; copies and
// memory sets between them are not counted.
//
// "cupti" counts inside this process, "ncu" runs the point once more under Nsight Compute,
// "external" only marks the product for a profiler the program was started under. Counting comes
// after the timed launches, never between them. Backend "simulate" predicts the same metrics under
// the same names (model/simulator/counters.hpp).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/records/record.hpp"

namespace tessera {

/// A product on the device, to be launched as often as counting it takes.
struct CountedProduct {
  const Point& point;
  std::string algorithm;         // of a library with several, the one timed; else empty
  int warming = 0;               // products to launch just before the one that is counted
  std::function<void()> flush;   // overwrites the L2; empty where the point wants it warm
  std::function<void()> launch;  // one product, all its kernels, waited for
};

class CounterSource {
 public:
  static constexpr const char* kKind = "counter source";
  virtual ~CounterSource() = default;

  /// The reason why this machine cannot count with it; empty when it can.
  virtual std::string unavailable() const = 0;

  /// Throws an Error with the nearest names for a metric the GPU does not have.
  virtual CounterValues collect(const std::vector<std::string>& metrics,
                                const CountedProduct& product) const = 0;
};

/// The metrics that are counted unless a config names others: those the simulator predicts.
const std::vector<std::string>& default_metrics();

/// The source of that name, or, for "auto", the first of auto_counter_sources() that works here.
struct CounterChoice {
  std::string name;
  std::unique_ptr<CounterSource> source;  // absent when this build has none of that name
  std::string missing;                    // why it cannot be used; empty when it can
};
CounterChoice find_counter_source(const std::string& name);

}  // namespace tessera
