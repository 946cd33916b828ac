// The traits of backend "reorder_gpu", whose implementation is in the CUDA half
// (reorder_gpu_backend_gpu.cpp): a build without that half knows the name.
#include "experiments/points/traits.hpp"

namespace tessera {
namespace {

const RegisterTraits<BackendTraits> traits{
    "reorder_gpu",
    "finding the order of A on this machine's GPU, timed; no product and nothing packed",
    {.activity = Activity::kReorder, .measures = true, .needs_gpu = true}};

}  // namespace
}  // namespace tessera
