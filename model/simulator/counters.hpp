// What a simulation found under the names of the hardware counters that measure it, so that the two
// can be held against each other.
//
// Requests between the two partitions of the L2 count as L2 sectors once more; a store by several
// instructions, each of which has a part of the same sectors, hits with all but the first.
#pragma once

#include <map>
#include <string>

#include "model/simulator/simulator.hpp"

namespace tessera::simulator {

/// By metric name. Units are those of the metrics: ns, sectors of 32 bytes, bytes, percent.
std::map<std::string, double> counters(const Result& result);

}  // namespace tessera::simulator
