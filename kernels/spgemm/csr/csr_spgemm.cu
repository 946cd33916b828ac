// Device half of csr_spgemm: one warp per row of C. See kernels/spgemm/csr/csr_spgemm.cpp.
//
// Lane l keeps the cursors of nonzeros l, l + 32, ... of the row of A; a cursor is an index in the
// row of B. The least column at any cursor is the next column of C; every lane adds its terms in
// the order of A's columns.

#include <climits>
#include <cub/device/device_scan.cuh>

#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"

namespace tessera {
namespace {

constexpr int kWarpSize = 32, kWarpsPerBlock = 4;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr std::int32_t kNoColumn = INT_MAX;  // columns are less

struct CsrView {
  const std::int64_t* __restrict__ row_offsets;
  const std::int32_t* __restrict__ col_indices;
  const float* __restrict__ values;
};

/// A row of A and the rows of B that it selects.
struct RowMerge {
  CsrView a, b;
  std::int64_t first, last;            // nonzeros of the row of A
  std::int32_t* __restrict__ cursors;  // [nnz of A] indices in B
  int lane;

  __device__ void begin() const {
    for (std::int64_t k = first + lane; k < last; k += kWarpSize)
      cursors[k] = static_cast<std::int32_t>(b.row_offsets[a.col_indices[k]]);
  }

  /// The column at the cursor of nonzero k.
  __device__ std::int32_t column(std::int64_t k) const {
    const std::int32_t at = cursors[k];
    return at < b.row_offsets[a.col_indices[k] + 1] ? b.col_indices[at] : kNoColumn;
  }

  __device__ std::int32_t least_column() const {
    std::int32_t least = kNoColumn;
    for (std::int64_t k = first + lane; k < last; k += kWarpSize) least = min(least, column(k));
    for (int step = kWarpSize / 2; step > 0; step /= 2)
      least = min(least, __shfl_xor_sync(kAllLanes, least, step));
    return least;
  }

  __device__ void pass(std::int32_t col) const {
    for (std::int64_t k = first + lane; k < last; k += kWarpSize)
      if (column(k) == col) ++cursors[k];
  }

  /// Adds up the terms of a column and moves the cursors past it.
  __device__ float sum(std::int32_t col) const {
    float total = 0;
    for (std::int64_t base = first; base < last; base += kWarpSize) {
      const std::int64_t k = base + lane;
      const bool has_term = k < last && column(k) == col;
      float of_a = 0, of_b = 0;
      if (has_term) {
        of_a = a.values[k];
        of_b = b.values[cursors[k]++];
      }
      for (unsigned left = __ballot_sync(kAllLanes, has_term); left != 0; left &= left - 1) {
        const int from = __ffs(static_cast<int>(left)) - 1;
        total = fmaf(__shfl_sync(kAllLanes, of_a, from), __shfl_sync(kAllLanes, of_b, from), total);
      }
    }
    return total;
  }
};

__device__ std::int64_t row_of_warp() {
  return std::int64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.y;
}

__device__ RowMerge merge_of(CsrView a, CsrView b, std::int64_t row, std::int32_t* cursors) {
  const RowMerge merge{
      a, b, a.row_offsets[row], a.row_offsets[row + 1], cursors, static_cast<int>(threadIdx.x)};
  merge.begin();
  return merge;
}

__global__ void count_columns(std::int32_t rows, CsrView a, CsrView b, std::int32_t* cursors,
                              std::int64_t* __restrict__ lengths) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const RowMerge merge = merge_of(a, b, row, cursors);
  std::int64_t length = 0;
  for (std::int32_t col = merge.least_column(); col != kNoColumn; col = merge.least_column()) {
    merge.pass(col);
    ++length;
  }
  if (merge.lane == 0) lengths[row] = length;
}

__global__ void fill(std::int32_t rows, CsrView a, CsrView b, std::int32_t* cursors, float alpha,
                     const std::int64_t* __restrict__ c_offsets, std::int32_t* __restrict__ c_cols,
                     float* __restrict__ c_values) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const RowMerge merge = merge_of(a, b, row, cursors);
  std::int64_t to = c_offsets[row];
  for (std::int32_t col = merge.least_column(); col != kNoColumn; col = merge.least_column()) {
    const float sum = merge.sum(col);
    if (merge.lane == 0) {
      c_cols[to] = col;
      c_values[to] = alpha == 1 ? sum : alpha * sum;
    }
    ++to;
  }
}

class CsrProduct final : public GpuSparseProduct {
 public:
  CsrProduct(const CsrMatrix& a, const CsrMatrix& b) : a_(a), b_(b) {}

  void multiply(float alpha, ProductRun& run) override {
    c_.rows = a_.rows;
    c_.cols = b_.cols;
    const RunArray<std::int32_t> cursors(run, a_.nnz);
    run.stage("count");
    c_.row_offsets = offsets(run, cursors.data());
    run.stage("fill");
    std::int64_t nnz = 0;
    cuda_check(cudaMemcpyAsync(&nnz, c_.row_offsets.data() + a_.rows, sizeof(nnz),
                               cudaMemcpyDeviceToHost, run.stream()),
               "reading the number of nonzeros of C");
    cuda_check(cudaStreamSynchronize(run.stream()), "counting the nonzeros of C");
    c_.col_indices = RunArray<std::int32_t>(run, nnz);
    c_.values = RunArray<float>(run, nnz);
    if (nnz == 0) return;
    fill<<<blocks(), kThreads, 0, run.stream()>>>(a_.rows, view(a_), view(b_), cursors.data(),
                                                  alpha, c_.row_offsets.data(),
                                                  c_.col_indices.data(), c_.values.data());
    cuda_check(cudaGetLastError(), "launching csr_spgemm");
  }

  void release() override { c_ = {}; }
  const SparseResult* result() const override { return &c_; }
  CsrMatrix download() const override { return c_.download(); }

 private:
  static constexpr dim3 kThreads{kWarpSize, kWarpsPerBlock};

  static CsrView view(const DeviceCsr& matrix) {
    return {matrix.row_offsets.data(), matrix.col_indices.data(), matrix.values.data()};
  }
  unsigned blocks() const {
    return static_cast<unsigned>((std::int64_t{a_.rows} + kWarpsPerBlock - 1) / kWarpsPerBlock);
  }

  /// Returns where the rows of C begin. [rows + 1]
  RunArray<std::int64_t> offsets(ProductRun& run, std::int32_t* cursors) const {
    const std::int64_t size = std::int64_t{a_.rows} + 1;
    const RunArray<std::int64_t> lengths(run, size);
    cuda_check(cudaMemsetAsync(lengths.data() + a_.rows, 0, sizeof(std::int64_t), run.stream()),
               "clearing the last length of C");
    if (a_.rows > 0)
      count_columns<<<blocks(), kThreads, 0, run.stream()>>>(a_.rows, view(a_), view(b_), cursors,
                                                             lengths.data());
    cuda_check(cudaGetLastError(), "launching csr_spgemm");
    RunArray<std::int64_t> offsets(run, size);
    std::size_t bytes = 0;
    cuda_check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, lengths.data(), offsets.data(), size,
                                             run.stream()),
               "planning a scan");
    const RunArray<char> scratch(run, static_cast<std::int64_t>(bytes));
    cuda_check(cub::DeviceScan::ExclusiveSum(scratch.data(), bytes, lengths.data(), offsets.data(),
                                             size, run.stream()),
               "adding up the lengths of C");
    return offsets;
  }

  DeviceCsr a_, b_;
  SparseResult c_;
};

class GpuCsrSpgemm final : public GpuSpgemm {
 public:
  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    require<Unsupported>(a.nnz() < INT_MAX && b.nnz() < INT_MAX,
                         "csr_spgemm supports fewer than 2^31 - 1 nonzeros; A has {} and B has {}",
                         a.nnz(), b.nnz());
    return std::make_unique<CsrProduct>(a, b);
  }
};

const Register<GpuSpgemm> entry{{
    .name = "csr_spgemm",
    .summary = "device half of csr_spgemm",
    .make = [](const Params&) { return std::make_unique<GpuCsrSpgemm>(); },
}};

}  // namespace
}  // namespace tessera
