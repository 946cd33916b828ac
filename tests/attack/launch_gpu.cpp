// The CUDA half of the attack: it joins gpu_half() before main, where this process has a GPU.

#include "experiments/machine/gpu_info.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"
#include "tests/attack/attack.hpp"
#include "tests/gpu_launch.hpp"

namespace tessera {
namespace {

LaunchOutput launched(const AttackCase& given) {
  const auto kernel =
      Registry<SpmmKernel>::instance().make(given.choice.kernel, given.choice.params);
  const auto packed =
      Registry<Format>::instance().make(kernel->format(), given.choice.format)->pack(given.a);
  return launch_scaled(given.choice, *packed, given.b, given.old_c(), given.scaling);
}

const bool registered = [] {
  gpu_half() = []() -> std::optional<GpuHalf> {
    if (!gpu_unavailable().empty()) return {};
    return GpuHalf{launched, gpu_generation()};
  };
  return true;
}();

}  // namespace
}  // namespace tessera
