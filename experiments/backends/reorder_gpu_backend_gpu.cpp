// Backend "reorder_gpu": the time to find an order on the GPU, from A's pattern in CSR on the
// device to a permutation on the device.
//
// Allocations are part of it, out of a pool that has grown to what they need. The order has to be
// that of the host half, row by row.

#include "experiments/backends/backend.hpp"
#include "experiments/backends/launch_timer.hpp"
#include "experiments/backends/out_of_memory.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/registry.hpp"
#include "reorder/gpu_reordering.hpp"

namespace tessera {
namespace {

constexpr std::uint64_t kPoolBytes = std::uint64_t{1} << 36;  // kept between searches

/// The first place where the device's order is not the host's; empty when it is the same.
std::string difference(const StreamBuffer& rows, const Permutation& expected) {
  std::vector<std::int32_t> found(static_cast<std::size_t>(expected.size()));
  cuda_check(cudaMemcpy(found.data(), rows.as<std::int32_t>(), found.size() * sizeof(std::int32_t),
                        cudaMemcpyDeviceToHost),
             "copying an order from the device");
  const auto rows_on_host = expected.old_of_new();
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i] != rows_on_host[i])
      return fmt::format("found on the GPU, the order has row {} at place {}, on the host row {}",
                         found[i], i, rows_on_host[i]);
  return "";
}

class ReorderGpuBackend final : public Backend {
 public:
  std::string origin() const override { return "measured"; }
  std::string unavailable() const override { return gpu_unavailable(); }

  OrderingResult reorder(const OrderingInput& o) const override {
    return forgetting_out_of_memory([&] { return measure(o); });
  }

 private:
  static OrderingResult measure(const OrderingInput& o) {
    const auto& registry = Registry<GpuReordering>::instance();
    const Variant& reordering = o.point.reorder;
    require<Unsupported>(registry.contains(reordering.name), "{} does not run on GPUs",
                         reordering.name);
    const auto search = registry.make(reordering.name, reordering.params);
    OrderingResult result{compute_order(o.reordering, o.matrix, o.watch), 0, "", {}};
    require<Unsupported>(!result.found.cut_short,
                         "the order that the GPU's is compared with was cut short");

    keep_pooled_memory(kPoolBytes);
    const DeviceArray<std::int64_t> row_offsets(o.matrix.row_offsets);
    const DeviceArray<std::int32_t> col_indices(o.matrix.col_indices);
    const DevicePattern pattern{o.matrix.rows, o.matrix.cols, o.matrix.nnz(), row_offsets.data(),
                                col_indices.data()};
    const cudaStream_t stream = nullptr;
    {
      const StreamBuffer rows = search->order(pattern, stream);
      cuda_check(cudaStreamSynchronize(stream), "finding an order");
      result.fault = difference(rows, result.found.order.rows);
    }
    const GpuClocks before = gpu_clocks();
    const LaunchTimes times =
        time_launches([&](cudaStream_t s) { search->order(pattern, s); }, o.point.measure, stream);
    result.time_us = times.summary.median;
    result.found.seconds = 1e-6 * times.summary.median;
    result.found.threads = 1;  // that enqueues the steps
    result.found.peak_bytes.reset();
    result.found.peak_unknown = "memory of the device is not counted";
    result.findings.time = time_part(times, o.point.measure.l2);
    result.findings.clocks = {before, gpu_clocks()};
    return result;
  }
};

const Register<Backend> entry{{
    .name = "reorder_gpu",
    .summary = "",  // with the traits, in reorder_gpu_backend.cpp
    .make = [](const Params&) { return std::make_unique<ReorderGpuBackend>(); },
}};

}  // namespace
}  // namespace tessera
