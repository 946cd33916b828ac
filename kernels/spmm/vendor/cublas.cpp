// NVIDIA's cuBLAS on A as a dense matrix, host half: what a sparse kernel must beat to be worth its
// format (SMaT's comparison, poster and section 6).
//
// A closed library: no emulation, no work description. Every cell of A is multiplied, zeros too, so
// that a NaN or an infinity of B reaches every row of C. Zeros that pad K meet zeros in B's place.
// Device half: kernels/spmm/vendor/cublas.cu.

#include "kernels/spmm/vendor/cublas.hpp"

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

class Cublas final : public SpmmKernel {
 public:
  explicit Cublas(cublas::CublasOptions choices) : choices_(std::move(choices)) {}

  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 2; }

  Arithmetic arithmetic() const override {
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type_of(choices_.precision.conversion),
            .mma_depth = choices_.precision.depth,
            .input_error = choices_.precision.input_error};
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    // Products with a zero of A leave a sum as it is; nothing is known of the order of the others.
    return packed_as<CsrPacked>(packed).row_lengths();
  }

 private:
  cublas::CublasOptions choices_;
};

const Register<SpmmKernel> entry{{
    .name = "cublas",
    .summary = "cuBLAS on A as a dense matrix, tensor cores, B converted in the launch",
    .params =
        {{"precision", std::string("fp16"), "of the operands; sums are FP32", {"fp16", "tf32"}},
         {"pad",
          std::string("k"),
          "zeros after A's columns, without which the library is slow. k: rows of A to whole 128 "
          "bytes and K to 16, for which TF32 has to copy B in the launch where K was not; rows: "
          "the rows alone",
          {"k", "rows", "none"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<Cublas>(cublas::CublasOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
