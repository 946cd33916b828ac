// Backend "pack_gpu": the time to build the packed A on the GPU, from A in CSR on the device.
//
// Allocations are part of it, out of a pool that has grown to what they need; so is the wait for
// sizes that only the device knows. The result is the host's packed matrix: that the device's
// arrays have its bytes is checked, array by array.

#include "experiments/backends/backend.hpp"
#include "experiments/backends/launch_timer.hpp"
#include "experiments/backends/lost_context.hpp"
#include "experiments/backends/out_of_memory.hpp"
#include "experiments/backends/packed_difference.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/registry.hpp"
#include "formats/gpu/gpu_format.hpp"

namespace tessera {
namespace {

constexpr std::uint64_t kPoolBytes = std::uint64_t{1} << 36;  // kept between packings

class PackGpuBackend final : public Backend {
 public:
  std::string origin() const override { return "measured"; }
  std::string unavailable() const override { return gpu_unavailable(); }
  bool has_lost_device() const override { return context_is_lost(); }
  void open_device() const override { open_gpu(); }

  PackingResult pack(const PackingInput& p) const override {
    return forgetting_out_of_memory([&] { return measure(p); });
  }

 private:
  static PackingResult measure(const PackingInput& p) {
    const auto& registry = Registry<GpuFormat>::instance();
    const Variant& format = packing(p.point).format;
    require<Unsupported>(registry.contains(format.name), "{} is not built on GPUs", format.name);
    const auto builder = registry.make(format.name, format.params);
    PackingResult result;
    result.packed = p.format.pack(p.matrix);

    keep_pooled_memory(kPoolBytes);
    const DeviceArray<std::int64_t> row_offsets(p.matrix.row_offsets);
    const DeviceArray<std::int32_t> col_indices(p.matrix.col_indices);
    const DeviceArray<float> values(p.matrix.values);
    const DeviceCsr a{p.matrix.rows,      p.matrix.cols,      p.matrix.nnz(),
                      row_offsets.data(), col_indices.data(), values.data()};
    const cudaStream_t stream = nullptr;
    {
      const GpuPacked packed = builder->build(a, {}, stream);
      result.fault = packed_difference(packed, *result.packed);
    }
    const GpuClocks before = gpu_clocks();
    const LaunchTimes times =
        time_launches([&](cudaStream_t s) { builder->build(a, {}, s); }, p.point.measure, stream);
    result.time_us = times.summary.median;
    result.findings.time = time_part(times, p.point.measure);
    result.findings.clocks = {before, gpu_clocks()};
    return result;
  }
};

const Register<Backend> entry{{
    .name = "pack_gpu",
    .summary = "",  // with the traits, in pack_gpu_backend.cpp
    .make = [](const Params&) { return std::make_unique<PackGpuBackend>(); },
}};

}  // namespace
}  // namespace tessera
