// Values that a launch reports to the host, which waits for them without a copy and without the end
// of the stream's work.
#pragma once

#include <atomic>
#include <cstdint>

#include "formats/base/check.hpp"
#include "kernels/gpu_spgemm.hpp"

namespace tessera::spgemm {

/// A value in memory of the host. It is there once `epoch` has the number of its report.
template <class T>
struct Reported {
  T value;
  std::uint32_t epoch;
};

/// Where a launch reports a value.
template <class T>
struct Report {
  const T* of = nullptr;      // on the device
  Reported<T>* to = nullptr;  // nullptr: no report
  std::uint32_t epoch = 0;
};

/// True in the last thread block of the launch that calls this; it then sees the writes of all
/// others. *done counts thread blocks. Every thread has to call it.
__device__ inline bool is_last_block(std::uint32_t* done) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(done, 1u) + 1 == gridDim.x;
  __syncthreads();
  __threadfence();
  return is_last;
}

/// Writes a value that is complete to the host, in one thread block.
template <class T>
__device__ void write_report(const Report<T>& report) {
  static_assert(sizeof(T) % sizeof(std::uint32_t) == 0);
  const auto* const from = reinterpret_cast<const std::uint32_t*>(report.of);
  auto* const to = reinterpret_cast<std::uint32_t*>(&report.to->value);
  for (unsigned i = threadIdx.x; i < sizeof(T) / sizeof(std::uint32_t); i += blockDim.x)
    to[i] = __ldcg(from + i);
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) *static_cast<volatile std::uint32_t*>(&report.to->epoch) = report.epoch;
}

/// The host's side: one value in pinned memory, which is slow to allocate. Who reads values again
/// and again keeps the object.
template <class T>
class Reports {
 public:
  Reports() {
    cuda_check(cudaMallocHost(&on_host_, sizeof(*on_host_)), "allocating pinned memory");
    *on_host_ = {};
  }
  ~Reports() { cudaFreeHost(on_host_); }
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  /// The value that was reported last; the caller may read another into it.
  T& value() const { return on_host_->value; }

  /// The report of the next launch that makes one.
  Report<T> next(const T* of) { return {of, on_host_, ++epoch_}; }

  /// Waits for a report, which comes a little earlier than the end of the stream's work.
  const T& wait(const Report<T>& report, cudaStream_t stream) const {
    const std::atomic_ref<std::uint32_t> epoch(on_host_->epoch);
    constexpr unsigned kTurns = 1 << 14;  // between looks at the stream, which may have failed
    for (unsigned turn = 1; epoch.load(std::memory_order_acquire) != report.epoch; ++turn) {
      if (turn % kTurns != 0) continue;
      const cudaError_t state = cudaStreamQuery(stream);
      if (state == cudaErrorNotReady) continue;
      cuda_check(state, "waiting for a report of the device");
      require(epoch.load(std::memory_order_acquire) == report.epoch,
              "a launch on the device has ended without its report");
    }
    return on_host_->value;
  }

 private:
  Reported<T>* on_host_ = nullptr;  // [1], pinned
  std::uint32_t epoch_ = 0;         // of the last report
};

}  // namespace tessera::spgemm
