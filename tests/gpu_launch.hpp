// One launch of a kernel's device half with alpha and beta, in memory that shows what it wrote.
#pragma once

#include <bit>
#include <limits>
#include <vector>

#include "experiments/backends/check_result.hpp"
#include "formats/base/registry.hpp"
#include "kernels/device/stored_values.hpp"
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
  const Storage storage =
      Registry<SpmmKernel>::instance().make(choice.kernel, choice.params)->arithmetic().storage;
  const DeviceArray<std::byte> b = upload_as(storage.b, b_memory);
  std::vector<float> memory(old_c.values.size() + 2 * kGuard, std::bit_cast<float>(kPoison));
  if (scaling.beta != 0) std::ranges::copy(old_c.values, memory.begin() + kGuard);
  DeviceArray<std::byte> c = upload_as(storage.c, memory);

  const Operands operands{b.data(), c.data() + kGuard * bytes_of(storage.c), scaling};
  gpu->prepare(0, operands, nullptr);
  gpu->launch(0, operands, nullptr);
  cuda_check(cudaDeviceSynchronize(), "running a scaled product");
  return read_output(download_as(storage.c, c), kGuard, old_c.rows, old_c.cols);
}

}  // namespace tessera
