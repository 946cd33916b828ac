// NVIDIA's cuBLAS on A as a dense matrix, host half: the baseline that a sparse kernel must beat
// (SMaT's comparison, poster and section 6).
//
// A closed library: no emulation, no work description. It multiplies every cell of A, zeros too, so
// that a NaN or an infinity of B reaches every row of C. Zeros that pad K are multiplied by zeros.
// Device half: kernels/spmm/vendor/cublas.cu.

#include "kernels/spmm/vendor/cublas.hpp"

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

class Cublas final : public SpmmKernel {
 public:
  explicit Cublas(cublas::CublasOptions options) : options_(std::move(options)) {}

  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 2; }

  Arithmetic arithmetic() const override {
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type_of(options_.precision.conversion),
            .mma_depth = options_.precision.depth,
            .input_error = options_.precision.input_error,
            .adds_in_memory = true};  // what NVIDIA does not document has the wider bound
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    // Products with a zero of A change no sum; the order of the others is unknown.
    return packed_as<CsrPacked>(packed).row_lengths();
  }

 private:
  cublas::CublasOptions options_;
};

const Register<SpmmKernel> entry{{
    .name = "cublas",
    .summary = "cuBLAS on A as a dense matrix, tensor cores, B converted in the launch",
    .params =
        {{"precision",
          std::string("fp16"),
          "type of the operands; sums are FP32",
          {"fp16", "tf32"}},
         {"pad",
          std::string("k"),
          "zeros behind the columns of A, without which the library is slow. k: rows of A padded "
          "to "
          "128 bytes and K to 16, where TF32 then copies B in every launch; rows: only the rows of "
          "A; none",
          {"k", "rows", "none"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<Cublas>(cublas::CublasOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
