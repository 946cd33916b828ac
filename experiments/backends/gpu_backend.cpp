// The traits of backend "gpu", whose implementation is in the CUDA half (gpu_backend_gpu.cpp): a
// build without that half knows the name.
#include "experiments/points/traits.hpp"

namespace tessera {
namespace {

const RegisterTraits<BackendTraits> traits{
    "gpu",
    "the kernel on this machine's GPU, timed",
    {.computes_c = true, .measures = true, .counts = true, .needs_gpu = true}};

}  // namespace
}  // namespace tessera
