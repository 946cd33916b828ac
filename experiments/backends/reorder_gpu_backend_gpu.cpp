// Backend "reorder_gpu": the time to find an order on the GPU, from A's pattern in CSR on the
// device to a permutation on the device. Backend "prepare_gpu": the time to find it and to pack A
// in it, from A in CSR on the device to A as mosaic on the device.
//
// Allocations are part of both, out of a pool that has grown to what they need. The order has to be
// that of the host half, row by row, and the packed A has to have the host's bytes.

#include "experiments/backends/backend.hpp"
#include "experiments/backends/launch_timer.hpp"
#include "experiments/backends/lost_context.hpp"
#include "experiments/backends/out_of_memory.hpp"
#include "experiments/backends/packed_difference.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/registry.hpp"
#include "formats/gpu/gpu_permute.hpp"
#include "formats/mosaic.hpp"
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

/// A matrix on the device.
class MatrixOnDevice {
 public:
  explicit MatrixOnDevice(const CsrMatrix& a)
      : row_offsets_(a.row_offsets),
        col_indices_(a.col_indices),
        values_(a.values),
        view_{a.rows, a.cols, a.nnz(), row_offsets_.data(), col_indices_.data(), values_.data()} {}

  const DeviceCsr& view() const { return view_; }
  DevicePattern pattern() const {
    return {view_.rows, view_.cols, view_.nnz, view_.row_offsets, view_.col_indices};
  }

 private:
  DeviceArray<std::int64_t> row_offsets_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
  DeviceCsr view_;
};

enum class Work { kOrder, kOrderAndPack };

class ReorderGpuBackend final : public Backend {
 public:
  explicit ReorderGpuBackend(Work work) : packs_(work == Work::kOrderAndPack) {}

  std::string origin() const override { return "measured"; }
  std::string unavailable() const override { return gpu_unavailable(); }
  bool has_lost_device() const override { return context_is_lost(); }
  void open_device() const override { open_gpu(); }

  OrderingResult reorder(const OrderingInput& o) const override {
    return forgetting_out_of_memory([&] { return measure(o); });
  }

 private:
  OrderingResult measure(const OrderingInput& o) const {
    const auto& registry = Registry<GpuReordering>::instance();
    const Variant& reordering = o.point.reorder;
    require<Unsupported>(registry.contains(reordering.name), "{} does not run on GPUs",
                         reordering.name);
    const auto search = registry.make(reordering.name, reordering.params);
    OrderingResult result{compute_order(o.reordering, o.matrix, o.watch), 0, "", {}};
    require<Unsupported>(!result.found.cut_short,
                         "the order that the GPU's is compared with was cut short");

    keep_pooled_memory(kPoolBytes);
    const MatrixOnDevice a(o.matrix);
    const auto builder = Registry<GpuFormat>::instance().make(Mosaic::kFormat);
    const auto pack = [&](const StreamBuffer& rows, cudaStream_t s) {
      const GpuPermuted in_order(a.view(), rows.as<std::int32_t>(), s);
      return builder->build(in_order.view(), {}, s);
    };
    const cudaStream_t stream = nullptr;
    {
      const StreamBuffer rows = search->order(a.pattern(), stream);
      cuda_check(cudaStreamSynchronize(stream), "finding an order");
      result.fault = difference(rows, result.found.order.rows);
      if (packs_ && result.fault.empty())
        result.fault = packed_difference(
            pack(rows, stream), *Registry<Format>::instance()
                                     .make(Mosaic::kFormat)
                                     ->pack(permute_rows(o.matrix, result.found.order.rows)));
    }
    const GpuClocks before = gpu_clocks();
    const LaunchTimes times = time_launches(
        [&](cudaStream_t s) {
          const StreamBuffer rows = search->order(a.pattern(), s);
          if (packs_) pack(rows, s);
        },
        o.point.measure, stream);
    result.time_us = times.summary.median;
    result.found.seconds = 1e-6 * times.summary.median;
    result.found.threads = 1;  // that enqueues the steps
    result.found.peak_bytes.reset();
    result.found.peak_unknown = "memory of the device is not counted";
    result.findings.time = time_part(times, o.point.measure);
    result.findings.clocks = {before, gpu_clocks()};
    return result;
  }

  bool packs_;
};

const Register<Backend> order_entry{{
    .name = "reorder_gpu",
    .summary = "",  // with the traits, in reorder_gpu_backend.cpp
    .make = [](const Params&) { return std::make_unique<ReorderGpuBackend>(Work::kOrder); },
}};

const Register<Backend> prepare_entry{{
    .name = "prepare_gpu",
    .summary = "",  // with the traits, in reorder_gpu_backend.cpp
    .make = [](const Params&) { return std::make_unique<ReorderGpuBackend>(Work::kOrderAndPack); },
}};

}  // namespace
}  // namespace tessera
