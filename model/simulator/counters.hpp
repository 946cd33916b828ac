// What a simulation found under the names of the hardware counters that measure it, so that the two
// can be held against each other.
//
// A rule of the hardware's counting that is not obvious was read off an H200: a store of 16 bytes a
// lane goes through the L1 in four parts, of which the later three hit what the first one has
// touched; requests between the two partitions of the L2 count as L2 sectors once more.
#pragma once

#include <map>
#include <string>

#include "model/simulator/simulator.hpp"

namespace tessera::simulator {

/// By metric name. Units are those of the metrics: ns, sectors of 32 bytes, bytes, percent.
std::map<std::string, double> counters(const Result& result);

}  // namespace tessera::simulator
