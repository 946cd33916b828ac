// The traits of counter source "external", whose implementation is in the CUDA half
// (external_counters_gpu.cpp): a build without that half knows the name.
#include "experiments/points/traits.hpp"

namespace tessera {
namespace {

const RegisterTraits<CounterSourceTraits> traits{
    "external", "none: marks one product for a profiler that the program was started under", {}};

}  // namespace
}  // namespace tessera
