// NVIDIA's cuSPARSE SpGEMM, host half: the baseline of sparse products. `algorithm` selects one of
// the library's algorithms: default; alg2 and alg3, which need less memory for their intermediate
// products; reuse, which finds C's structure and then computes its values.
//
// The library is closed: there is no emulation and no work description. A product is the whole
// sequence of calls with their buffers and descriptors. With reuse, it includes finding the
// structure, which is kept for further products; these are timed separately. Device half:
// kernels/spgemm/vendor/cusparse_spgemm.cu.

#include "kernels/spgemm/vendor/cusparse_spgemm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera {
namespace {

class CusparseSpgemm final : public SpgemmKernel {
 public:
  explicit CusparseSpgemm(bool is_wide) : is_wide_(is_wide) {}

  int version() const override { return 1; }
  Arithmetic arithmetic() const override {
    return {.sum = is_wide_ ? Arithmetic::Sum::kFp64 : Arithmetic::Sum::kFp32};
  }

 private:
  bool is_wide_;
};

const Register<SpgemmKernel> entry{{
    .name = "cusparse_spgemm",
    .summary = "cuSPARSE SpGEMM, any of its algorithms, in FP32 or FP64",
    .params =
        {{"precision",
          std::string("fp32"),
          "type of the values of A and B, of the sums and of C",
          {"fp32", "fp64"}},
         {"algorithm",
          std::string("default"),
          "algorithm of the library; reuse finds the structure, then the values, in every product",
          {"default", "alg2", "alg3", "reuse"}},
         {"chunk",
          0.2,
          "fraction of the products that alg3 keeps in memory at a time",
          {},
          0.001,
          1}},
    .make =
        [](const Params& params) {
          return std::make_unique<CusparseSpgemm>(params.text("precision") == "fp64");
        },
}};

}  // namespace
}  // namespace tessera
