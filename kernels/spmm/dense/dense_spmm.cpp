// Our own SpMM for matrices of which a large share is nonzero: all of A, zeros too, on the tensor
// cores of compute capability 9.0.
//
// From about one nonzero in twenty on, finding the nonzeros costs more than multiplying the zeros.
// Such an A is small: what takes time is to begin, to bring the operands to the multiprocessors at
// the rate of the L2, and to add the parts of the depth. wgmma reads A from shared memory as it was
// packed, rounded before; B passes through registers, where FP32 is rounded to TF32, so that the
// product is C^T = B^T A^T. Every zero of A meets B, whose infinities and NaNs make NaNs of it.

#include "kernels/spmm/dense/dense_spmm.hpp"

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm/dense/trace.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

using dense_spmm::DenseSpmmOptions;
using dense_spmm::Schedule;

/// One row of A by a range of the steps of its depth.
class RowEmulation {
 public:
  RowEmulation(const DenseTiles& a, const DenseSpmmOptions& options, const FusedStep& step,
               const PreparedB& b)
      : a_(a), options_(options), step_(step), b_(b) {}

  /// Adds the products of columns [first, last) of A; `c` [n] holds zeros on entry.
  void run(std::int64_t row, std::int64_t first, std::int64_t last, std::span<float> c) {
    RowChain chain(options_.precision(), step_, b_, c);
    const int depth = options_.step_depth();
    for (std::int64_t begin = first; begin < last; begin += depth) {
      terms_.clear();
      for (std::int64_t col = begin; col < std::min(begin + depth, last); ++col) {
        const float value = a_.values[DenseTiles::cell(row, col, a_.col_tiles())];
        if (value != 0 || !b_.part(0).row_is_finite(col))
          terms_.push_back(
              {split(value, options_.precision()), col, static_cast<int>(col - begin)});
      }
      if (!terms_.empty()) chain.add(terms_);
    }
    chain.finish();
  }

 private:
  const DenseTiles& a_;
  const DenseSpmmOptions& options_;
  const FusedStep& step_;
  const PreparedB& b_;
  std::vector<ChunkTerm> terms_;
};

class DenseSpmm final : public SpmmKernel {
 public:
  explicit DenseSpmm(const DenseSpmmOptions& options) : options_(options) {}

  std::string format() const override { return DenseTiles::kFormat; }
  int version() const override { return 1; }

  Arithmetic arithmetic() const override {
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type_of(options_.precision().conversion),
            .mma_depth = options_.step_depth(),
            .input_error = options_.precision().input_error,
            .storage = options_.storage()};
  }

  /// The steps that hold a nonzero of the row, and the most parts that C has at any width.
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& a = packed_as<DenseTiles>(packed);
    const std::int64_t parts = options_.schedule(a.rows(), a.cols(), 1).parts();
    std::vector<std::int64_t> terms(static_cast<std::size_t>(a.rows()), parts - 1);
    parallel_for(a.rows(), DenseTiles::kTileRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        std::int64_t last = -1;  // step with a nonzero
        for (std::int64_t col = 0; col < a.cols(); ++col) {
          if (a.values[DenseTiles::cell(row, col, a.col_tiles())] == 0) continue;
          if (col / options_.step_depth() != last) ++terms[row];
          last = col / options_.step_depth();
        }
      }
    });
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto& a = packed_as<DenseTiles>(packed);
    const Schedule schedule = options_.schedule(a.rows(), a.cols(), b.cols);
    const auto stages = static_cast<int>(schedule.stages(a.cols()));
    const FusedStep& step = generation.step(type_of(options_.precision().conversion));
    const PreparedB prepared(b, options_.precision());
    DenseMatrix c(a.rows(), b.cols);
    parallel_for(a.rows(), 4, [&](std::int64_t begin, std::int64_t end) {
      RowEmulation emulation(a, options_, step, prepared);
      std::vector<float> sums(static_cast<std::size_t>(b.cols));
      const auto first_col = [&](int part) {
        return std::min<std::int64_t>(
            std::int64_t{dense_spmm::first_stage(stages, schedule.parts_log2, part)} *
                schedule.stage_depth(),
            a.cols());
      };
      for (std::int64_t row = begin; row < end; ++row) {
        const std::span<float> sum = c.row(row);
        emulation.run(row, 0, first_col(1), sum);
        for (int part = 1; part < schedule.parts(); ++part) {
          std::ranges::fill(sums, 0.0f);
          emulation.run(row, first_col(part), first_col(part + 1), sums);
          for (std::size_t j = 0; j < sums.size(); ++j) sum[j] = add_on_gpu(sum[j], sums[j]);
        }
      }
    });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    return dense_spmm::describe(packed_as<DenseTiles>(packed), n, options_);
  }

 private:
  DenseSpmmOptions options_;
};

const Register<SpmmKernel> entry{{
    .name = "dense_spmm",
    .summary = "all of A, zeros too, by wgmma, for a large share of nonzeros (ours)",
    .params = storage_params("the type of B in memory; with 16 bits, A is rounded to it"),
    .make =
        [](const Params& params) { return std::make_unique<DenseSpmm>(DenseSpmmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
