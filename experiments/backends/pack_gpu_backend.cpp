// The traits of backend "pack_gpu", whose implementation is in the CUDA half
// (pack_gpu_backend_gpu.cpp): a build without that half knows the name.
#include "experiments/points/traits.hpp"

namespace tessera {
namespace {

const RegisterTraits<BackendTraits> traits{
    "pack_gpu",
    "building the packed A on this machine's GPU, timed; no product",
    {.activity = Activity::kPack, .measures = true, .needs_gpu = true}};

}  // namespace
}  // namespace tessera
