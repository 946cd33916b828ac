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

/// Throws OutOfMemory or std::runtime_error, with the runtime's own text and `doing`, unless the
/// status is a success. The second is no Error of ours: after most CUDA errors the process cannot
/// use the device any more.
inline void cuda_check(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  const auto message = fmt::format("CUDA error while {}: {} ({})", doing,
                                   cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(message);
  throw std::runtime_error(message);
}

/// An array [size] on the current device. Members throw as cuda_check does.
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

/// Uninitialised memory from the device's pool, allocated and freed in the order of a stream: each
/// takes about a microsecond once the pool has grown. The stream must outlive the buffer.
class StreamBuffer {
 public:
  StreamBuffer() = default;
  StreamBuffer(std::int64_t bytes, cudaStream_t stream) : bytes_(bytes), stream_(stream) {
    if (bytes > 0)
      cuda_check(cudaMallocAsync(&data_, static_cast<std::size_t>(bytes), stream),
                 "allocating device memory");
  }
  ~StreamBuffer() {
    if (data_ != nullptr) cudaFreeAsync(data_, stream_);
  }
  StreamBuffer(StreamBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        stream_(other.stream_) {}
  StreamBuffer& operator=(StreamBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(stream_, other.stream_);
    return *this;
  }

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
  cudaStream_t stream_ = nullptr;
};

/// Lets the current device's pool keep up to `bytes` of freed memory for later allocations.
inline void keep_pooled_memory(std::uint64_t bytes) {
  int device = 0;
  cuda_check(cudaGetDevice(&device), "querying the device");
  cudaMemPool_t pool = nullptr;
  cuda_check(cudaDeviceGetDefaultMemPool(&pool, device), "querying the memory pool");
  cuda_check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes),
             "setting up the memory pool");
}

}  // namespace tessera
