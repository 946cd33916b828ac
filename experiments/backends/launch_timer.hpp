// How long a launch takes: the one place where GPU time is measured.
//
// CUDA events around batches of launches. Warm: a batch is as many launches as last 100 us, so that
// neither the events' resolution nor the launch itself decides. Flush: one launch a batch, the L2
// overwritten before it. Samples are taken until the standard error of their mean is below the
// rule's noise, between its least and greatest number, and not longer than its seconds; nor is the
// warm-up before.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

#include "experiments/backends/time_summary.hpp"
#include "experiments/points/point.hpp"
#include "formats/base/device_memory.hpp"

namespace tessera {

/// Twice the L2: what a launch is to find cold is overwritten with it.
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
