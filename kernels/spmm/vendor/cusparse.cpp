// NVIDIA's cuSPARSE SpMM, host half: the baseline of every kernel. CSR with algorithms 1 to 3, COO
// with 1 to 4, BSR (blocks of bcsr) and Blocked-ELL; in FP32, or with operands in FP16 and sums in
// FP32.
//
// A closed library: no emulation, no work description. It multiplies blocks whole, so that a NaN or
// an infinity of B reaches rows that have no nonzero there; FP32 Blocked-ELL uses TF32
// tensor cores (measured on an H200: errors of 2.6e-4). Device half:
// kernels/spmm/vendor/cusparse_gpu.cpp.

#include "kernels/spmm/vendor/cusparse.hpp"

#include "formats/base/registry.hpp"
#include "formats/bcsr.hpp"
#include "formats/blocked_ell.hpp"
#include "formats/coo.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {
namespace {

class Cusparse final : public SpmmKernel {
 public:
  explicit Cusparse(cusparse::CusparseOptions options) : options_(std::move(options)) {}

  std::string format() const override { return options_.format; }
  int version() const override { return 1; }

  Arithmetic arithmetic() const override {
    const bool tf32 = options_.format == BlockedEll::kFormat;
    const bool half = options_.operands != ElementType::kFp32;
    if (!half && !tf32)
      return {.adds_in_memory = true, .multiplies_padding = options_.format == Bcsr::kFormat};
    // NVIDIA does not document the units that multiply FP16, nor which sums meet in memory: the
    // bound is the wider one, of tensor cores and of additions in memory.
    const Precision& precision =
        find_precision(half ? std::string(name_of(options_.operands)) : "tf32");
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type_of(precision.conversion),
            .mma_depth = precision.depth,
            .input_error = precision.input_error,
            .storage = {options_.storage, options_.storage},
            .adds_in_memory = true};
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    // Products with a zero of padding change no sum.
    if (options_.format == CsrPacked::kFormat) return packed_as<CsrPacked>(packed).row_lengths();
    return CsrPacked(packed.unpack()).row_lengths();
  }

 private:
  cusparse::CusparseOptions options_;
};

const Register<SpmmKernel> entry{{
    .name = "cusparse",
    .summary = "cuSPARSE SpMM on CSR, COO, BSR or Blocked-ELL, the best of its algorithms",
    .params = {{"format",
                std::string(CsrPacked::kFormat),
                "format of A for the library; bcsr is its BSR",
                {CsrPacked::kFormat, Coo::kFormat, Bcsr::kFormat, BlockedEll::kFormat}},
               {"precision",
                std::string("fp32"),
                "type of A and B, which every launch converts; sums and C are FP32",
                {"fp32", "fp16"}},
               {"storage",
                std::string("fp32"),
                "type of A, B and C in memory; with 16 bits nothing is converted, sums are FP32",
                {"fp32", "fp16", "bf16"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<Cusparse>(cusparse::CusparseOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
