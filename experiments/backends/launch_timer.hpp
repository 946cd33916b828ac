// The time of a launch: the one place where GPU time is measured.
//
// CUDA events enclose batches of launches. Warm: a batch is as many launches as last 100 us, so
// that neither the resolution of the events nor the cost of a launch decides. Flush: a batch is one
// launch, and the L2 is overwritten before it. Sampling ends when the standard error of the mean is
// below the rule's noise, within the rule's limits on samples and seconds; the warm-up before has
// the same limit in seconds.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

#include "experiments/backends/time_summary.hpp"
#include "experiments/points/point.hpp"
#include "formats/base/device_memory.hpp"

namespace tessera {

/// A buffer of twice the size of the L2, which is written before a launch that starts cold.
class L2Flush {
 public:
  L2Flush();
  void overwrite(cudaStream_t stream);

 private:
  DeviceArray<std::byte> buffer_;
};

/// Times `launch`, which enqueues everything one multiplication needs on the stream.
TimeSummary time_launches(const std::function<void(cudaStream_t)>& launch, const MeasureRule& rule,
                          cudaStream_t stream);

}  // namespace tessera
