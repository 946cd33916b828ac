// Device half of csr_spmm: one thread per element of C. See kernels/spmm/csr/csr_spmm.cpp.

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/csr/schedule.hpp"

namespace tessera {
namespace {

using namespace csr_spmm;

__global__ void multiply(int rows, int n, const std::int64_t* __restrict__ row_offsets,
                         const std::int32_t* __restrict__ col_indices,
                         const float* __restrict__ values, const float* __restrict__ b,
                         float* __restrict__ c, Scaling scaling) {
  const WarpItem item = item_of(blockIdx.x, blockIdx.y, threadIdx.y);
  const std::int64_t row = item.row, col = item.first_col + threadIdx.x;
  if (row >= rows || col >= n) return;
  float sum = 0;
  for (std::int64_t k = row_offsets[row]; k < row_offsets[row + 1]; ++k)
    sum = fmaf(values[k], b[std::int64_t{col_indices[k]} * n + col], sum);
  float* to = c + row * n + col;
  *to = scaled(scaling, sum, to);
}

class CsrMultiplication final : public GpuMultiplication {
 public:
  CsrMultiplication(const CsrMatrix& a, std::int64_t n)
      : schedule_{.rows = a.rows, .n = n},
        row_offsets_(a.row_offsets),
        col_indices_(a.col_indices),
        values_(a.values) {
    load_now(multiply);
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (schedule_.thread_blocks() == 0) return;
    const dim3 blocks(static_cast<unsigned>(schedule_.row_blocks()),
                      static_cast<unsigned>(schedule_.col_blocks()));
    multiply<<<blocks, dim3(kColsPerBlock, kRowsPerBlock), 0, stream>>>(
        static_cast<int>(schedule_.rows), static_cast<int>(schedule_.n), row_offsets_.data(),
        col_indices_.data(), values_.data(), operands.b_fp32(), operands.c_fp32(),
        operands.scaling);
    cuda_check(cudaGetLastError(), "launching csr_spmm");
  }

 private:
  Schedule schedule_;
  DeviceArray<std::int64_t> row_offsets_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
};

class GpuCsrSpmm final : public GpuSpmm {
 public:
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    require<Unsupported>(n <= kMaxCols, "csr_spmm takes at most {} columns of B, not {}", kMaxCols,
                         n);
    return std::make_unique<CsrMultiplication>(packed_as<CsrPacked>(packed).matrix, n);
  }
};

const Register<GpuSpmm> entry{{
    .name = "csr_spmm",
    .summary = "device half of csr_spmm",
    .make = [](const Params&) { return std::make_unique<GpuCsrSpmm>(); },
}};

}  // namespace
}  // namespace tessera
