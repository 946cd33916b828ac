// The plain CSR kernel on CUDA cores: one thread per element of C, a chain of FP32 fused
// multiply-adds in the order of the row. The do-nothing variant of the stage.

#include "kernels/csr_spmm.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/vector_clones.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

TESSERA_VECTOR_CLONES
void add_scaled_row(float a, const float* b, float* c, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) c[j] = __builtin_fmaf(a, b[j], c[j]);
}

class CsrSpmm final : public SpmmKernel {
 public:
  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return {}; }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    return packed_as<CsrPacked>(packed).row_lengths();
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation&) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    DenseMatrix c(a.rows, b.cols);
    parallel_for(a.rows, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto cols = a.row_cols(i);
        const auto values = a.row_values(i);
        const auto c_row = c.row(i);
        for (std::size_t k = 0; k < cols.size(); ++k)
          add_scaled_row(values[k], b.row(cols[k]).data(), c_row.data(), b.cols);
        // The GPU knows one NaN.
        for (float& value : c_row)
          if (std::isnan(value)) value = std::bit_cast<float>(0x7fffffff);
      }
    });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    using namespace csr_spmm;
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    WorkDescription work{.kernel = "csr_spmm", .threads_per_block = kThreads};
    const std::int64_t col_blocks = (n + kColsPerBlock - 1) / kColsPerBlock;
    for (std::int64_t row = 0; row < a.rows; row += kRowsPerBlock) {
      const std::int64_t rows = std::min<std::int64_t>(kRowsPerBlock, a.rows - row);
      const std::int64_t nnz = a.row_offsets[row + rows] - a.row_offsets[row];
      for (std::int64_t block = 0; block < col_blocks; ++block) {
        const std::int64_t cols = std::min<std::int64_t>(kColsPerBlock, n - block * kColsPerBlock);
        // Each warp reads its row's offsets, indices and values once, broadcast to its lanes.
        work.thread_blocks.push_back({.fma = nnz * cols,
                                      .a_bytes = 16 * rows + 8 * nnz,
                                      .b_bytes = 4 * nnz * cols,
                                      .c_bytes = 4 * rows * cols});
      }
    }
    work.footprint_bytes = stats(packed).bytes;
    work.b_rows_bytes = 4 * n * count_distinct(a.col_indices, a.cols);
    work.c_bytes = 4 * n * a.rows;
    work.useful_flops = 2 * a.nnz() * n;
    return work;
  }
};

const Register<SpmmKernel> entry{{
    .name = "csr_spmm",
    .summary = "plain CSR on CUDA cores, one thread per element of C (FP32)",
    .make = [](const Params&) { return std::make_unique<CsrSpmm>(); },
}};

}  // namespace
}  // namespace tessera
