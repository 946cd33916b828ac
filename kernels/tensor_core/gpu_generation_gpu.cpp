#include "kernels/tensor_core/gpu_generation.hpp"

#include "formats/base/device_memory.hpp"

namespace tessera {

std::string generation_of(int major, int minor) {
  switch (major * 10 + minor) {
    case 75:
      return "turing";
    case 80:
    case 86:
      return "ampere";
    case 89:
      return "ada";
    case 90:
      return "hopper";
    default:
      return "";
  }
}

std::string gpu_generation() {
  int device = 0, major = 0, minor = 0;
  cuda_check(cudaGetDevice(&device), "querying the device");
  cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
             "asking for the compute capability");
  cuda_check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
             "asking for the compute capability");
  const std::string name = generation_of(major, minor);
  require<Unsupported>(!name.empty(), "the arithmetic of compute capability {}.{} is not known",
                       major, minor);
  return name;
}

}  // namespace tessera
