// How long a launch takes: the one place where GPU time is measured.
//
// CUDA events around batches of launches. Warm: a batch is as many launches as last 100 us, so that
// neither the events' resolution nor the launch itself decides. Flush: one launch a batch, the L2
// overwritten before it. Samples are taken until the standard error of their mean is below the
// rule's noise, between its least and greatest number, and not longer than its seconds.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "experiments/point.hpp"

namespace tessera {

/// Microseconds of one launch: order statistics over the samples.
struct TimeSummary {
  double median = 0, p5 = 0, p95 = 0, min = 0, mean = 0, stddev = 0;
  std::int64_t samples = 0;
  std::int64_t launches_per_sample = 1;
};

TimeSummary summarise(std::vector<double> samples_us, std::int64_t launches_per_sample);
Json to_json(const TimeSummary& time);

/// Times `launch`, which enqueues everything one multiplication needs on the stream.
TimeSummary time_launches(const std::function<void(cudaStream_t)>& launch, const MeasureRule& rule,
                          cudaStream_t stream);

}  // namespace tessera
