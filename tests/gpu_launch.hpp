// One launch of a kernel's device half with alpha and beta, in memory that shows what it wrote.
#pragma once

#include <bit>
#include <limits>
#include <vector>

#include "experiments/backends/check_result.hpp"
#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "tests/kernel_choices.hpp"

namespace tessera {

/// alpha A B + beta C by the device half, C between guards of poison, B before NaNs. `old_c` is not
/// read where beta is 0. Throws as GpuSpmm::upload and cuda_check do.
inline LaunchOutput launch_scaled(const Choice& choice, const PackedMatrix& packed,
                                  const DenseMatrix& given_b, const DenseMatrix& old_c,
                                  Scaling scaling) {
  constexpr std::size_t kGuard = 64;
  const auto params = Registry<SpmmKernel>::instance().resolve(choice.kernel, choice.params);
  const auto gpu =
      Registry<GpuSpmm>::instance().make(choice.kernel, params)->upload(packed, given_b.cols);
  std::vector<float> b_memory = given_b.values;
  b_memory.resize(b_memory.size() + 16 * static_cast<std::size_t>(given_b.cols),
                  std::numeric_limits<float>::quiet_NaN());
  const DeviceArray<float> b(b_memory);
  std::vector<float> memory(old_c.values.size() + 2 * kGuard, std::bit_cast<float>(kPoison));
  if (scaling.beta != 0) std::ranges::copy(old_c.values, memory.begin() + kGuard);
  DeviceArray<float> c(memory);

  gpu->prepare(0, b.data(), c.data() + kGuard, nullptr);
  gpu->launch(0, {b.data(), c.data() + kGuard, scaling}, nullptr);
  cuda_check(cudaDeviceSynchronize(), "running a scaled product");
  return read_output(c.download(), kGuard, old_c.rows, old_c.cols);
}

}  // namespace tessera
