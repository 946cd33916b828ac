// Order statistics over the samples of a measured time.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/records/record.hpp"

namespace tessera {

/// The summary of at least one sample, in microseconds; quantiles are interpolated between the two
/// nearest samples.
TimeSummary summarise(std::vector<double> samples_us, std::int64_t launches_per_sample);

}  // namespace tessera
