// NVIDIA's cuSPARSE SpGEMM, host half: the baseline of sparse products. `algorithm` chooses among
// the library's: default, alg2 and alg3, which take less memory for their intermediate products,
// and reuse, which finds C's structure and computes its values apart.
//
// A closed library: no emulation, no work description. A product is the whole sequence of calls
// with their buffers and descriptors, structure included where it could be kept; with reuse it is
// kept for more products, which are timed apart. Device half:
// kernels/spgemm/vendor/cusparse_spgemm.cu.

#include "kernels/spgemm/vendor/cusparse_spgemm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera {
namespace {

class CusparseSpgemm final : public SpgemmKernel {
 public:
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return {}; }
};

const Register<SpgemmKernel> entry{{
    .name = "cusparse_spgemm",
    .summary = "cuSPARSE SpGEMM, any of its algorithms (FP32)",
    .params =
        {{"algorithm",
          std::string("default"),
          "of the library; reuse: structure and values apart, both in every product",
          {"default", "alg2", "alg3", "reuse"}},
         {"chunk", 0.2, "share of the products that alg3 has in memory at a time", {}, 0.001, 1}},
    .make = [](const Params&) { return std::make_unique<CusparseSpgemm>(); },
}};

}  // namespace
}  // namespace tessera
