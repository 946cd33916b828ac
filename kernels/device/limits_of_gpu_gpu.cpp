// The CUDA half of kernels/device/limits_of_gpu.hpp.

#include "formats/base/check.hpp"
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

int sms_of_gpu() {
  int device = 0, sms = 0;
  cuda_check(cudaGetDevice(&device), "querying the device");
  cuda_check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device),
             "asking for the number of SMs");
  return sms;
}

void require_wgmma(std::string_view kernel) {
  int device = 0, major = 0;
  cuda_check(cudaGetDevice(&device), "finding the GPU");
  cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
             "finding the compute capability");
  require<Unsupported>(major == 9, "{} needs compute capability 9.0, not {}.x", kernel, major);
}

}  // namespace tessera
