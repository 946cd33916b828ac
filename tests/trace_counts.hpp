// The instructions and requests of a trace, compared with the hardware counters.
#pragma once

#include <cmath>
#include <string>

namespace tessera {

/// The instructions and requests of a launch, in a trace or by counters.
struct TraceCounts {
  double instructions;
  double mma;
  double l1_sectors;  // that loads request from the L1
  double l2_reads;    // sectors that the L1s request from the L2
};

/// Largest relative differences between a trace and the counters.
struct TraceTolerance {
  double instructions, l1_sectors, l2_reads;
  double mma = 0;
};

/// predicted / counted - 1.
inline double difference(double predicted, double counted) {
  return counted == 0 ? (predicted == 0 ? 0 : INFINITY) : predicted / counted - 1;
}

/// The counts that differ by more than the tolerance, by name; empty when none does. A launch that
/// executed nothing and a trace with more MMAs than were executed differ in any case.
inline std::string counts_beyond(const TraceCounts& predicted, const TraceCounts& counted,
                                 const TraceTolerance& tolerance) {
  std::string beyond;
  const auto compare = [&](const char* name, double TraceCounts::*count, double limit) {
    // Written so that a difference that is no number is beyond, too.
    if (!(std::abs(difference(predicted.*count, counted.*count)) <= limit)) beyond += name;
  };
  if (!(counted.instructions > 0)) beyond += "nothing-executed ";
  if (predicted.mma > counted.mma) beyond += "more-mma ";
  compare("mma ", &TraceCounts::mma, tolerance.mma);
  compare("instructions ", &TraceCounts::instructions, tolerance.instructions);
  compare("l1_sectors ", &TraceCounts::l1_sectors, tolerance.l1_sectors);
  compare("l2_reads ", &TraceCounts::l2_reads, tolerance.l2_reads);
  return beyond;
}

}  // namespace tessera
