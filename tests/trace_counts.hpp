// The instructions and requests of a trace, compared with the hardware counters.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
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

/// Appends a line to the file that an environment variable names, where it names one.
inline void append_line(const char* variable, const std::string& line) {
  const char* path = std::getenv(variable);
  if (path == nullptr) return;
  std::FILE* file = std::fopen(path, "a");
  REQUIRE(file != nullptr);
  std::fprintf(file, "%s\n", line.c_str());
  REQUIRE(std::fclose(file) == 0);
}

/// Appends a row to the file that TESSERA_COUNTED names: a row of
/// experiments/results/simulator/counted.csv without its commit.
inline void append_counted(const std::string& product, const TraceCounts& counted) {
  append_line("TESSERA_COUNTED",
              fmt::format("{},{:.0f},{:.0f},{:.0f},{:.0f}", product, counted.instructions,
                          counted.mma, counted.l1_sectors, counted.l2_reads));
}

/// Appends a row to the file that TESSERA_TRACE_TABLE names, from which
/// notebooks/trace_counters.py makes trace_counters.csv: of each count the trace's, the hardware's
/// and the difference.
inline void append_to_table(const std::string& product, const TraceCounts& predicted,
                            const TraceCounts& counted) {
  std::string row = product;
  for (const auto count : {&TraceCounts::instructions, &TraceCounts::mma, &TraceCounts::l1_sectors,
                           &TraceCounts::l2_reads})
    row += fmt::format(",{:.0f},{:.0f},{:.4f}", predicted.*count, counted.*count,
                       difference(predicted.*count, counted.*count));
  append_line("TESSERA_TRACE_TABLE", row);
}

}  // namespace tessera
