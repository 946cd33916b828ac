// A point in a stream of the GPU, and the time between two of them.
#pragma once

#include "formats/base/device_memory.hpp"

namespace tessera {

class DeviceEvent {
 public:
  DeviceEvent() { cuda_check(cudaEventCreate(&event_), "creating an event"); }
  ~DeviceEvent() { cudaEventDestroy(event_); }
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  void record(cudaStream_t stream = nullptr) {
    cuda_check(cudaEventRecord(event_, stream), "timing");
  }

  /// Microseconds from `start` to this event. Waits until the stream has reached this event; throws
  /// when a kernel in between has failed.
  double us_since(const DeviceEvent& start) const {
    float ms = 0;
    cuda_check(cudaEventSynchronize(event_), "running a kernel");
    cuda_check(cudaEventElapsedTime(&ms, start.event_, event_), "timing");
    return 1e3 * ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace tessera
