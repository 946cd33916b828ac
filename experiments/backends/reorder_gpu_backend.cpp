// The traits of the backends "reorder_gpu" and "prepare_gpu", whose implementation is in the CUDA
// half (reorder_gpu_backend_gpu.cpp): a build without that half knows the names.
#include "experiments/points/traits.hpp"

namespace tessera {
namespace {

const RegisterTraits<BackendTraits> order_traits{
    "reorder_gpu",
    "finding the order of A on this machine's GPU, timed; no product and nothing packed",
    {.activity = Activity::kReorder, .measures = true, .needs_gpu = true}};

const RegisterTraits<BackendTraits> prepare_traits{
    "prepare_gpu",
    "finding the order of A on this machine's GPU and packing A as mosaic in it, timed; no product",
    {.activity = Activity::kReorder, .measures = true, .needs_gpu = true}};

}  // namespace
}  // namespace tessera
