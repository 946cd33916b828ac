// A product under a mask by a kernel that makes whole products: C is made first, and a second pass
// copies the values of the mask's cells. It is what a mask inside the product is compared with.

#include <cstdint>
#include <memory>
#include <utility>

#include "formats/base/check.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/shared/rows.cuh"

namespace tessera {
namespace {

constexpr int kThreads = 256;

/// A matrix in CSR whose pattern alone counts, or whose values do as well.
struct Pattern {
  const std::int64_t* offsets;  // [rows + 1]
  const std::int32_t* cols;     // [nnz]
};

/// Copies the value of each cell of the mask from C, zero where C has no such cell; kLanes lanes
/// per row.
template <int kLanes>
__global__ void __launch_bounds__(kThreads)
    filter_rows(std::int32_t rows, Pattern mask, Pattern c, const float* values_of_c, float zero,
                float* values) {
  const std::int64_t row = spgemm::grid_thread() / kLanes;
  if (row >= rows) return;
  std::int64_t from = c.offsets[row];
  const std::int64_t end = c.offsets[row + 1], end_of_mask = mask.offsets[row + 1];
  for (std::int64_t at = mask.offsets[row] + threadIdx.x % kLanes; at < end_of_mask; at += kLanes) {
    const std::int32_t col = mask.cols[at];
    std::int64_t above = end;  // the columns of a lane ascend, so that `from` stays valid
    while (from < above) {
      const std::int64_t middle = from + (above - from) / 2;
      if (c.cols[middle] < col)
        from = middle + 1;
      else
        above = middle;
    }
    values[at] = from < end && c.cols[from] == col ? values_of_c[from] : zero;
  }
}

class FilteredProduct final : public GpuSparseProduct {
 public:
  FilteredProduct(std::unique_ptr<GpuSparseProduct> whole, const CsrMatrix& mask)
      : whole_(std::move(whole)), mask_(mask) {
    require<Unsupported>(whole_->result() != nullptr,
                         "this kernel leaves C in another form than CSR, which no mask is applied "
                         "to");
  }

  void multiply(float alpha, ProductRun& run) override {
    whole_->multiply(alpha, run);
    run.stage("filter");
    c_ = SparseResult::in_one_block(run, mask_.rows, mask_.cols, mask_.nnz);
    c_.take_structure(mask_, run.stream());
    if (mask_.nnz <= 4 * std::int64_t{mask_.rows})
      filter<4>(alpha, run.stream());
    else if (mask_.nnz <= 16 * std::int64_t{mask_.rows})
      filter<16>(alpha, run.stream());
    else
      filter<32>(alpha, run.stream());
    whole_->release();
  }

  void set_values(std::span<const float> a, std::span<const float> b) override {
    whole_->set_values(a, b);
  }

  void release() override {
    whole_->release();  // where the product failed
    c_ = {};
  }
  const SparseResult* result() const override { return &c_; }
  CsrMatrix download() const override { return c_.download(); }

 private:
  template <int kLanes>
  void filter(float alpha, cudaStream_t stream) const {
    if (mask_.rows == 0) return;
    const SparseResult& whole = *whole_->result();
    filter_rows<kLanes><<<spgemm::grid_for(mask_.rows, kThreads / kLanes), kThreads, 0, stream>>>(
        mask_.rows, {mask_.row_offsets.data(), mask_.col_indices.data()},
        {whole.row_offsets.data(), whole.col_indices.data()}, whole.values.data(),
        alpha == 1 ? 0.0f : alpha * 0.0f, c_.values.data());
    cuda_check(cudaGetLastError(), "keeping the cells of a mask");
  }

  std::unique_ptr<GpuSparseProduct> whole_;
  DeviceMask mask_;
  SparseResult c_;
};

}  // namespace

std::unique_ptr<GpuSparseProduct> GpuSpgemm::upload_masked(const CsrMatrix& a, const CsrMatrix& b,
                                                           const CsrMatrix& mask) const {
  require_mask(a, b, mask);
  return std::make_unique<FilteredProduct>(upload(a, b), mask);
}

}  // namespace tessera
