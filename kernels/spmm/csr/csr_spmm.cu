// Device half of csr_spmm: one thread per element of C. See kernels/spmm/csr/csr_spmm.cpp.

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/csr/csr_spmm.hpp"

namespace tessera {
namespace {

__global__ void multiply(int rows, int n, const std::int64_t* __restrict__ row_offsets,
                         const std::int32_t* __restrict__ col_indices,
                         const float* __restrict__ values, const float* __restrict__ b,
                         float* __restrict__ c, Scaling scaling) {
  const std::int64_t row = std::int64_t{blockIdx.x} * csr_spmm::kRowsPerBlock + threadIdx.y;
  const std::int64_t col = std::int64_t{blockIdx.y} * csr_spmm::kColsPerBlock + threadIdx.x;
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
      : rows_(a.rows),
        n_(n),
        row_offsets_(a.row_offsets),
        col_indices_(a.col_indices),
        values_(a.values) {
    load_now(multiply);
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    const dim3 blocks(
        (rows_ + csr_spmm::kRowsPerBlock - 1) / csr_spmm::kRowsPerBlock,
        static_cast<unsigned>((n_ + csr_spmm::kColsPerBlock - 1) / csr_spmm::kColsPerBlock));
    if (rows_ == 0 || n_ == 0) return;
    multiply<<<blocks, dim3(csr_spmm::kColsPerBlock, csr_spmm::kRowsPerBlock), 0, stream>>>(
        rows_, static_cast<int>(n_), row_offsets_.data(), col_indices_.data(), values_.data(),
        operands.b, operands.c, operands.scaling);
    cuda_check(cudaGetLastError(), "launching csr_spmm");
  }

 private:
  std::int32_t rows_;
  std::int64_t n_;
  DeviceArray<std::int64_t> row_offsets_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
};

class GpuCsrSpmm final : public GpuSpmm {
 public:
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    constexpr std::int64_t kMaxCols = 65535LL * csr_spmm::kColsPerBlock;
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
