// The stream of an exchange. It has the highest priority: the thread blocks of an exchange are few,
// and find room as soon as blocks of the product end.
#pragma once

#include <cuda_runtime_api.h>

#include "formats/base/device_memory.hpp"

namespace tessera {

/// A stream of the highest priority, and an event of its own.
class ExchangeStream {
 public:
  ExchangeStream() {
    int least = 0, greatest = 0;
    cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    cuda_check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
               "creating a stream");
    for (cudaEvent_t* event : {&ready_, &arrived_})
      cuda_check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event");
  }
  ~ExchangeStream() {
    cudaEventDestroy(ready_);
    cudaEventDestroy(arrived_);
    cudaStreamDestroy(stream_);
  }
  ExchangeStream(const ExchangeStream&) = delete;
  ExchangeStream& operator=(const ExchangeStream&) = delete;

  /// Its work from now on runs after what is on `stream`.
  void follow(cudaStream_t stream) {
    cuda_check(cudaEventRecord(ready_, stream), "starting an exchange");
    cuda_check(cudaStreamWaitEvent(stream_, ready_), "starting an exchange");
  }
  /// What was enqueued since is what wait() waits for.
  void end() { cuda_check(cudaEventRecord(arrived_, stream_), "ending an exchange"); }
  /// Work that is added to `stream` later runs after the exchange.
  void wait(cudaStream_t stream) {
    cuda_check(cudaStreamWaitEvent(stream, arrived_), "waiting for an exchange");
  }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr, arrived_ = nullptr;
};

}  // namespace tessera
