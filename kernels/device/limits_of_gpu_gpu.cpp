// The CUDA half of kernels/device/limits_of_gpu.hpp.

#include "formats/base/device_memory.hpp"
#include "kernels/device/limits_of_gpu.hpp"

namespace tessera {

GpuLimits limits_of_gpu() {
  int device = 0;
  cuda_check(cudaGetDevice(&device), "querying the device");
  const auto value = [&](cudaDeviceAttr attribute) {
    int found = 0;
    cuda_check(cudaDeviceGetAttribute(&found, attribute, device), "asking for the limits of an SM");
    return std::int64_t{found};
  };
  return {.sms = value(cudaDevAttrMultiProcessorCount),
          .thread_blocks = value(cudaDevAttrMaxBlocksPerMultiprocessor),
          .warps = value(cudaDevAttrMaxThreadsPerMultiProcessor) / 32,
          .registers = value(cudaDevAttrMaxRegistersPerMultiprocessor),
          .shared_bytes = value(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
          .reserved_shared = value(cudaDevAttrReservedSharedMemoryPerBlock)};
}

}  // namespace tessera
