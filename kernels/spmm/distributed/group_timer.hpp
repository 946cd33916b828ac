// Times of work that several GPUs do together.
#pragma once

#include <functional>
#include <vector>

#include "kernels/spmm/distributed/nccl_communicator.hpp"

namespace tessera {

struct GroupTiming {
  int warming = 3;  // runs before the first sample
  int samples = 7;
  double sample_us = 2e4;  // that a sample takes at least, as far as 1024 runs do
};

/// The time of one run of `work` in each sample, in microseconds; every rank begins a sample at a
/// time, and calls this with the same timing. `work` enqueues on the default stream, its exchanges
/// included. Throws as DeviceCommunicator::wait() does. [timing.samples]
std::vector<double> time_together(DeviceCommunicator& comm, const std::function<void()>& work,
                                  const GroupTiming& timing = {});

}  // namespace tessera
