// Device memory that frees itself, and errors of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "formats/base/array.hpp"
#include "formats/base/check.hpp"

namespace tessera {

/// Throws (OutOfMemory, or a std::runtime_error that is none of ours: CUDA's errors stick) with the runtime's own text and what was being done.
inline void cuda_check(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  const auto message = fmt::format("CUDA error while {}: {} ({})", doing,
                                   cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(message);
  throw std::runtime_error(message);
}

/// An array on the current device.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t size) : size_(size) {
    if (size == 0) return;
    void* memory = nullptr;
    cuda_check(cudaMalloc(&memory, size * sizeof(T)), "allocating device memory");
    data_ = static_cast<T*>(memory);
  }
  explicit DeviceArray(std::span<const T> host) : DeviceArray(host.size()) { upload(host); }
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(std::span<const T>(host)) {}
  explicit DeviceArray(const Array<T>& host) : DeviceArray(std::span<const T>(host)) {}
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }

  void upload(std::span<const T> host) {
    cuda_check(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice),
               "copying to the device");
  }
  std::vector<T> download() const {
    std::vector<T> host(size_);
    cuda_check(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
               "copying from the device");
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tessera
