// What a record keeps of a measured time: order statistics over its samples.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/points/point.hpp"

namespace tessera {

/// Microseconds of one launch, or of one packing.
struct TimeSummary {
  double median = 0, p5 = 0, p95 = 0, min = 0, mean = 0, stddev = 0;
  std::int64_t samples = 0;
  std::int64_t launches_per_sample = 1;
};

/// Over at least one sample; quantiles lie between the two nearest samples.
TimeSummary summarise(std::vector<double> samples_us, std::int64_t launches_per_sample);

Json to_json(const TimeSummary& time);

}  // namespace tessera
