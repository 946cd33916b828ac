// The choice of kernels whose launches can overlap the one before them
// (kernels/device/overlapped_launch.cuh).
#pragma once

#include <string>

#include "formats/base/check.hpp"
#include "formats/base/params.hpp"

namespace tessera {

/// When the launch behind a product may begin: not before the product has ended; once its thread
/// blocks have ended; or once they have begun.
enum class Overlap { kNone, kLate, kEarly };

/// "overlap".
inline ParamSpec overlap_param() {
  return {"overlap",
          std::string("early"),
          "whether a launch begins before the one before it on the stream has ended, reads the "
          "structure of A and then waits (compute capability 9.0): once the other's thread blocks "
          "have begun (early), once they have ended (late) or not at all",
          {"early", "late", "none"}};
}

inline Overlap overlap_of(const Params& params) {
  const std::string& named = params.text("overlap");
  return named == "early" ? Overlap::kEarly : named == "late" ? Overlap::kLate : Overlap::kNone;
}

}  // namespace tessera
