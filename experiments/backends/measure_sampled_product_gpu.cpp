#include "experiments/backends/measure_sampled_product.hpp"

#include "experiments/backends/later_product.hpp"
#include "experiments/backends/launch_timer.hpp"
#include "experiments/backends/launch_watch.hpp"
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
  DeviceArray<std::byte> x = upload_as(storage.b, m.x.values);
  const DeviceArray<std::byte> y = upload_as(storage.b, m.y.values);
  const std::int64_t nnz = m.pattern.nnz();
  PoisonedOutput output(storage.c, static_cast<std::size_t>(nnz));
  const SddmmOperands operands{x.data(), y.data(), output.data()};
  gpu->prepare(operands, stream);

  SampledProductResult result;
  if (m.point.check.enabled) {
    output.poison();
    {
      const WatchedLaunch watched;
      gpu->launch(operands, stream);
      cuda_check(cudaDeviceSynchronize(), "running the kernel");
    }
    LaunchOutput found = output.read(1, nnz);
    result.s = with_values(m.pattern, std::move(found.c.values));
    result.unwritten = found.unwritten;
    result.guards_intact = found.guards_intact;
    result.generation = gpu_generation();
  }
  const GpuClocks before = gpu_clocks();
  const EnqueueLaunch launch = [&](cudaStream_t s) { gpu->launch(operands, s); };
  LaunchTimes times = time_launches(launch, m.point.measure, stream);
  result.time_us = times.summary.median;
  result.findings.clocks = {before, gpu_clocks()};
  RepeatedLaunches repeated(storage.b, x.data(), static_cast<std::int64_t>(m.x.values.size()),
                            output, launch, stream);
  add_reason(repeat_fault(repeated), times.fault);
  result.findings.time = time_part(times, m.point.measure);
  if (m.point.check.enabled) {
    repeated.launch_negated();
    LaunchOutput later = output.read(1, nnz);
    add_reason(later_launch_fault(later), result.fault);
    result.s_of_negated = with_values(m.pattern, std::move(later.c.values));
  }
  return result;
}

}  // namespace tessera
