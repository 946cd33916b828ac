// The choice of kernels whose launches can overlap the one before them
// (kernels/device/overlapped_launch.cuh).
#pragma once

#include <string>

#include "formats/base/params.hpp"

namespace tessera {

/// When a launch may begin that overlaps the one before it: once the thread blocks of that have
/// begun, or once they have ended, while what they wrote becomes visible. On an H200 rows_spmm took
/// 0.87 to 0.98 of the time of launches one after another with either (geometric means for N = 1 to
/// 512), but 0.61 with late ones instead of 0.90 on luxembourg_osm at N = 32, and 0.87 instead of
/// 1.14 on soc-Slashdot0902 at N = 1; why is not known (experiments/results/spmm/README.md).
enum class Overlap { kNone, kLate, kEarly };

/// "overlap".
inline ParamSpec overlap_param() {
  return {"overlap",
          std::string("late"),
          "whether a launch begins before the one before it on the stream has ended, reads the "
          "structure of A and then waits (compute capability 9.0): once the other's thread blocks "
          "have ended (late), once they have begun (early) or not at all",
          {"late", "early", "none"}};
}

inline Overlap overlap_of(const Params& params) {
  const std::string& named = params.text("overlap");
  return named == "early" ? Overlap::kEarly : named == "late" ? Overlap::kLate : Overlap::kNone;
}

}  // namespace tessera
