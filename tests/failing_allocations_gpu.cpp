#include "tests/failing_allocations.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>

namespace {

std::atomic<std::int64_t> live{0}, until_failure{0};

/// More than any device has: the runtime itself then fails, and keeps its error.
constexpr std::size_t kTooMuch = std::size_t{1} << 60;

template <class Allocate>
cudaError_t counted(std::size_t bytes, Allocate allocate) {
  const bool fails = until_failure > 0 && --until_failure == 0;
  const cudaError_t status = allocate(fails ? kTooMuch : bytes);
  if (status == cudaSuccess) ++live;
  return status;
}

template <class Free>
cudaError_t freed(void* memory, Free free) {
  if (memory != nullptr) --live;
  return free(memory);
}

}  // namespace

extern "C" {

cudaError_t __real_cudaMalloc(void** memory, std::size_t bytes);
cudaError_t __real_cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream);
cudaError_t __real_cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t __real_cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t __real_cudaFree(void* memory);
cudaError_t __real_cudaFreeAsync(void* memory, cudaStream_t stream);
cudaError_t __real_cudaFreeHost(void* memory);

cudaError_t __wrap_cudaMalloc(void** memory, std::size_t bytes) {
  return counted(bytes, [&](std::size_t size) { return __real_cudaMalloc(memory, size); });
}
cudaError_t __wrap_cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream) {
  return counted(bytes,
                 [&](std::size_t size) { return __real_cudaMallocAsync(memory, size, stream); });
}
cudaError_t __wrap_cudaMallocHost(void** memory, std::size_t bytes) {
  return counted(bytes, [&](std::size_t size) { return __real_cudaMallocHost(memory, size); });
}
cudaError_t __wrap_cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return counted(bytes,
                 [&](std::size_t size) { return __real_cudaHostAlloc(memory, size, flags); });
}
cudaError_t __wrap_cudaFree(void* memory) { return freed(memory, __real_cudaFree); }
cudaError_t __wrap_cudaFreeAsync(void* memory, cudaStream_t stream) {
  return freed(memory, [&](void* each) { return __real_cudaFreeAsync(each, stream); });
}
cudaError_t __wrap_cudaFreeHost(void* memory) { return freed(memory, __real_cudaFreeHost); }

}  // extern "C"

namespace tessera {

void fail_allocation(std::int64_t k) { until_failure = k; }

bool failure_is_due() { return until_failure > 0; }

std::int64_t live_allocations() { return live; }

}  // namespace tessera
