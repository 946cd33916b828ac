// The traits of counter source "cupti", whose implementation is in the CUDA half
// (cupti_counters_gpu.cpp): a build without that half knows the name.
#include "experiments/points/traits.hpp"

namespace tessera {
namespace {

const RegisterTraits<CounterSourceTraits> traits{
    "cupti", "inside this process, by CUPTI's range profiler", {.auto_rank = 1}};

}  // namespace
}  // namespace tessera
