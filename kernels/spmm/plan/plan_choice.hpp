// The choice of a plan among its candidates, and what it leaves on the device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/base/device_memory.hpp"
#include "formats/base/registry.hpp"
#include "formats/gpu/gpu_permute.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/packed_on_gpu.hpp"
#include "kernels/spmm/plan/spmm_plan.hpp"
#include "kernels/spmm_kernel.hpp"
#include "reorder/gpu_reordering.hpp"

namespace tessera {

/// A in CSR on the device, where it can be ordered and packed.
class MatrixOnDevice {
 public:
  explicit MatrixOnDevice(const CsrMatrix& a)
      : row_offsets_(a.row_offsets),
        col_indices_(a.col_indices),
        values_(a.values),
        view_{a.rows, a.cols, a.nnz(), row_offsets_.data(), col_indices_.data(), values_.data()} {}

  StreamBuffer order(const std::string& name) const {
    const auto& orders = Registry<GpuReordering>::instance();
    require<Unsupported>(orders.contains(name), "no order {} is found on GPUs", name);
    return orders.make(name)->order(
        {view_.rows, view_.cols, view_.nnz, view_.row_offsets, view_.col_indices}, nullptr);
  }
  PackedOnGpu packed(const StreamBuffer& order, const std::string& format,
                     const Params& params) const {
    const auto& builders = Registry<GpuFormat>::instance();
    require<Unsupported>(builders.contains(format), "{} is not built on GPUs", format);
    const GpuPermuted in_order(view_, order.as<std::int32_t>(), nullptr);
    return {view_.rows, view_.cols, view_.nnz,
            builders.make(format, params)->build(in_order.view(), {}, nullptr)};
  }

  CsrMatrix downloaded() const {
    return {view_.rows, view_.cols, row_offsets_.download(), col_indices_.download(),
            values_.download()};
  }

 private:
  DeviceArray<std::int64_t> row_offsets_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
  DeviceCsr view_;
};

/// A packed A with its kernel, on the device.
struct Uploaded {
  SpmmCandidate candidate;  // every parameter filled in
  std::unique_ptr<SpmmKernel> kernel;
  std::unique_ptr<PackedMatrix> packed;  // null where A was packed on the device,
  std::unique_ptr<MatrixOnDevice> a;     // which then keeps A, for emulations
  std::int64_t packed_bytes = 0;
  StreamBuffer order;  // old_of_new [rows] of an order that was found on the device, else empty
  std::unique_ptr<GpuMultiplication> gpu;
  int algorithm = 0;
  double preparation_us = 0;  // to find that order and to pack A in it, from A on the host
  double us = 0;              // median time of a product; 0 when it was not timed
};

/// The fastest of those candidates that are not to be omitted, on the device: by the policy "model"
/// for few products, else by time. The timings of the omitted ones come last.
Uploaded choose_of_useful(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& given,
                          std::vector<SpmmTiming>& timings, SpmmPreparation& preparation);

}  // namespace tessera
