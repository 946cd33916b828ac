// A matrix packed on the GPU: how long that takes, and whether the bytes are the host's.
#pragma once

#include <string>
#include <vector>

#include "experiments/launch_timer.hpp"
#include "formats/format.hpp"

namespace tessera {

struct GpuPacking {
  TimeSummary time;                    // of a build, A already on the device, pooled memory warm
  std::vector<std::string> different;  // arrays that are not the host's, byte by byte
};

/// Throws Unsupported when the format has no device half, or the matrix exceeds its limits.
GpuPacking pack_on_gpu(const Variant& format, const CsrMatrix& matrix, const PackedMatrix& expected,
                       const MeasureRule& rule);

}  // namespace tessera
