// The choice of kernels whose launches can overlap the one before them
// (kernels/device/overlapped_launch.cuh).
#pragma once

#include "formats/base/params.hpp"

namespace tessera {

/// "overlap".
inline ParamSpec overlap_param() {
  return {"overlap", true,
          "whether a launch begins while the one before it on the stream ends, reads the structure "
          "of A meanwhile and then waits (compute capability 9.0)"};
}

}  // namespace tessera
