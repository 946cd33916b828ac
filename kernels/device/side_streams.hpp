// Additional streams of a product, for launches that do not depend on each other.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>

#include "formats/base/device_memory.hpp"

namespace tessera {

/// Streams for launches that may overlap. A launch takes at least as long as its longest task, so
/// in sequence such launches would leave most of a device idle.
class SideStreams {
 public:
  SideStreams() {
    for (Side& side : sides_) {
      cuda_check(cudaStreamCreateWithFlags(&side.stream, cudaStreamNonBlocking),
                 "creating a stream");
      cuda_check(cudaEventCreateWithFlags(&side.done, cudaEventDisableTiming), "creating an event");
    }
    cuda_check(cudaEventCreateWithFlags(&begin_, cudaEventDisableTiming), "creating an event");
  }
  ~SideStreams() {
    for (const Side& side : sides_) {
      cudaEventDestroy(side.done);
      cudaStreamDestroy(side.stream);
    }
    cudaEventDestroy(begin_);
  }
  SideStreams(const SideStreams&) = delete;
  SideStreams& operator=(const SideStreams&) = delete;

  /// Calls launch(number, stream) for each of `count` launches. They run after the work that is on
  /// `stream` now and before the work that is added to it later.
  template <class Launch>
  void run(int count, cudaStream_t stream, Launch launch) {
    if (count == 1) return launch(0, stream);
    const int used = std::min(count, kSides);
    cuda_check(cudaEventRecord(begin_, stream), "forking a stream");
    for (int i = 0; i < used; ++i)
      cuda_check(cudaStreamWaitEvent(sides_[i].stream, begin_), "forking a stream");
    for (int i = 0; i < count; ++i) launch(i, sides_[i % kSides].stream);
    for (int i = 0; i < used; ++i) {
      cuda_check(cudaEventRecord(sides_[i].done, sides_[i].stream), "joining a stream");
      cuda_check(cudaStreamWaitEvent(stream, sides_[i].done), "joining a stream");
    }
  }

 private:
  struct Side {
    cudaStream_t stream = nullptr;
    cudaEvent_t done = nullptr;
  };
  static constexpr int kSides = 4;
  Side sides_[kSides];
  cudaEvent_t begin_ = nullptr;
};

}  // namespace tessera
