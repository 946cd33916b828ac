#include "experiments/backends/measure_sampled_product.hpp"

#include "experiments/backends/launch_timer.hpp"
#include "experiments/backends/poisoned_output.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/registry.hpp"
#include "kernels/gpu_sddmm.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"

namespace tessera {

SampledProductResult measure_sampled_product(const SampledMultiplication& m) {
  const auto& registry = Registry<GpuSddmm>::instance();
  const auto& [name, params] = sampled_product(m.point).kernel;
  require<Unsupported>(registry.contains(name), "kernel {} has no device half", name);
  const auto gpu = registry.make(name, params)->upload(m.a, m.x.cols);
  const cudaStream_t stream = nullptr;
  const Storage storage = m.kernel.arithmetic().storage;
  const DeviceArray<std::byte> x = upload_as(storage.b, m.x.values);
  const DeviceArray<std::byte> y = upload_as(storage.b, m.y.values);
  const std::int64_t nnz = m.pattern.nnz();
  PoisonedOutput output(storage.c, static_cast<std::size_t>(nnz));
  const SddmmOperands operands{x.data(), y.data(), output.data()};
  gpu->prepare(operands, stream);

  SampledProductResult result;
  if (m.point.check.enabled) {
    output.poison();
    gpu->launch(operands, stream);
    cuda_check(cudaDeviceSynchronize(), "running the kernel");
    LaunchOutput found = output.read(1, nnz);
    result.s = with_values(m.pattern, std::move(found.c.values));
    result.unwritten = found.unwritten;
    result.guards_intact = found.guards_intact;
    result.generation = gpu_generation();
  }
  const GpuClocks before = gpu_clocks();
  const TimeSummary time =
      time_launches([&](cudaStream_t s) { gpu->launch(operands, s); }, m.point.measure, stream);
  result.time_us = time.median;
  result.findings.time = {.summary = time, .l2 = m.point.measure.l2};
  result.findings.clocks = {before, gpu_clocks()};
  return result;
}

}  // namespace tessera
