// The CUDA runtime's properties of the GPU. They need no measurement, but they differ between the
// GPUs of a generation.

#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"

namespace tessera {
namespace {

Findings report(const Effort& /*effort*/) {
  const cudaDeviceProp& gpu = current_gpu();
  const auto reported = [](const char* quantity, auto value) {
    return Finding{quantity, static_cast<double>(value), "as the CUDA runtime reports it"};
  };
  return {{reported("sm_count", gpu.multiProcessorCount), reported("l2_capacity", gpu.l2CacheSize),
           reported("shared_per_sm", gpu.sharedMemPerMultiprocessor),
           reported("shared_per_block", gpu.sharedMemPerBlockOptin),
           reported("threads_per_sm", gpu.maxThreadsPerMultiProcessor),
           reported("warps_per_sm", gpu.maxThreadsPerMultiProcessor / gpu.warpSize),
           reported("thread_blocks_per_sm", gpu.maxBlocksPerMultiProcessor),
           reported("registers_per_sm", gpu.regsPerMultiprocessor)},
          {}};
}

const Register<Microbenchmark> entry{
    microbenchmark("limits", "the CUDA runtime's properties of the GPU", report)};

}  // namespace
}  // namespace tessera
