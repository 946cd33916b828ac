// The results of a simulation under the names of the hardware counters that measure the same, so
// that the two can be compared.
//
// Requests between the two partitions of the L2 count again as L2 sectors; of a store by several
// instructions with parts of the same sectors, all but the first hit.
#pragma once

#include <map>
#include <string>

#include "model/simulator/simulator.hpp"

namespace tessera::simulator {

/// The values by metric name. Units are those of the metrics: ns, sectors of 32 bytes, bytes,
/// percent.
std::map<std::string, double> counters(const Result& result);

}  // namespace tessera::simulator
