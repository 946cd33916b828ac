// Reads the output of Nsight Compute with `--csv --page raw --print-units base`: a line of names, a
// line of units and a line per launch, with messages ("==PROF== ...") before and between.
#pragma once

#include <string>
#include <vector>

#include "experiments/counters/launch_counts.hpp"

namespace tessera {

/// The metrics of each launch, in its base units (ns, bytes). Throws an Error that names what was
/// expected for a report of another form, a metric that is not in it or one without a value.
std::vector<LaunchCounts> read_ncu_report(const std::string& text,
                                          const std::vector<std::string>& metrics);

}  // namespace tessera
