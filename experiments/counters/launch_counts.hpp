// The counters of a product that takes several launches, put together from those of each launch.
//
// Counts, bytes and durations add. A rate is recomputed from what it is a rate of, summed over the
// launches: hit rates from sectors, shares of a peak from the cycles they are shares over. Never
// the mean of the rates: a launch that does nothing would weigh as much as the one that works.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tessera {

/// Metric -> value of one launch.
using LaunchCounts = std::map<std::string, double>;

/// The metrics, with those that their rates are recomputed from.
std::vector<std::string> with_companions(const std::vector<std::string>& metrics);

/// The values of all launches together. Throws an Error for no launches or for a metric that a
/// launch lacks, and Unsupported for several launches and a rate without a known recomputation.
LaunchCounts combine_launches(const std::vector<std::string>& metrics,
                              const std::vector<LaunchCounts>& launches);

}  // namespace tessera
