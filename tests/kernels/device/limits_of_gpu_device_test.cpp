// The limits of the GPU at hand, by which kernels plan their launches, are those of its
// description.
#include "kernels/device/limits_of_gpu.hpp"

#include <doctest/doctest.h>

#include <string>

#include "experiments/machine/gpu_info.hpp"
#include "formats/base/device_memory.hpp"
#include "model/described_limits.hpp"

namespace tessera {
namespace {

TEST_CASE("the limits of an H200 at hand are those of its description") {
  if (const std::string missing = gpu_unavailable(); !missing.empty()) {
    MESSAGE("skipped: ", missing);
    return;
  }
  int device = 0;
  cuda_check(cudaGetDevice(&device), "querying the device");
  cudaDeviceProp gpu;
  cuda_check(cudaGetDeviceProperties(&gpu, device), "querying the device");
  const GpuLimits found = limits_of_gpu();
  CHECK(found.sms == gpu.multiProcessorCount);
  if (std::string(gpu.name).find("H200") == std::string::npos) {
    MESSAGE("skipped: its description is not at hand");
    return;
  }
  const GpuLimits described = described_limits(find_device("h200"));
  CHECK(found.sms == described.sms);
  CHECK(found.thread_blocks == described.thread_blocks);
  CHECK(found.warps == described.warps);
  CHECK(found.registers == described.registers);
  CHECK(found.shared_bytes == described.shared_bytes);
  CHECK(found.reserved_shared == described.reserved_shared);
}

}  // namespace
}  // namespace tessera
