// Launches that begin while the one before them on the stream ends (CUDA programming guide,
// "Programmatic Dependent Launch"), from compute capability 9.0 on.
#pragma once

#include <cuda_runtime_api.h>

#include "formats/base/device_memory.hpp"

namespace tessera {

/// Lets the next launch begin once every thread block has called this or has ended.
__device__ inline void allow_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until the launch before has ended and what it wrote is seen. Of a launch that did not
/// begin early it costs nothing.
__device__ inline void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// The beginning of a product whose launch overlaps the one before it. What precedes this call may
/// read the structure of A alone: B, C, the values of A and what is kept between launches may be
/// written by the launch before, whatever it is. The next launch may begin once all thread blocks
/// have called this, or with `late` once they have ended.
__device__ inline void begin_product(bool late = false) {
  wait_for_launch_before();
  if (!late) allow_next_launch();
}

/// Whether launches on the current device can overlap.
inline bool can_overlap_launches() {
  int device = 0, major = 0;
  cuda_check(cudaGetDevice(&device), "querying the device");
  cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
             "querying the device");
  return major >= 9;
}

/// The attribute of a launch that overlaps the one before it.
inline cudaLaunchAttribute overlapping() {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

/// Launches a kernel that `overlaps` the launch before it, or does not.
template <class... Parameters>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, int threads, std::size_t shared_bytes,
                   cudaStream_t stream, bool overlaps, const Parameters&... arguments) {
  cudaLaunchAttribute attribute = overlapping();
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = overlaps ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace tessera
