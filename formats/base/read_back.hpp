// A value of the device, read by the host through pinned memory.
#pragma once

#include "formats/base/device_memory.hpp"

namespace tessera {

/// A value that the host reads back from the device through pinned memory. Pinned memory is slow to
/// allocate: who reads values again and again keeps the object.
template <class T>
class ReadBack {
 public:
  ReadBack() {
    void* memory = nullptr;
    cuda_check(cudaHostAlloc(&memory, sizeof(T), cudaHostAllocDefault), "allocating pinned memory");
    value_ = static_cast<T*>(memory);
  }
  ~ReadBack() { cudaFreeHost(value_); }
  ReadBack(const ReadBack&) = delete;
  ReadBack& operator=(const ReadBack&) = delete;

  /// Enqueues the copy. The value is valid once the stream has been waited for.
  void request(const T* device, cudaStream_t stream) {
    cuda_check(cudaMemcpyAsync(value_, device, sizeof(T), cudaMemcpyDeviceToHost, stream),
               "reading from the device");
  }
  /// Waits for the stream, then returns the value.
  const T& wait(cudaStream_t stream) const {
    cuda_check(cudaStreamSynchronize(stream), "waiting for a value of the device");
    return *value_;
  }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_; }

 private:
  T* value_ = nullptr;
};

}  // namespace tessera
