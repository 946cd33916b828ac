// NVIDIA's cuSPARSE SpMM on CSR, host half: the baseline every kernel is set beside.
//
// A closed library: no emulation, no work description. Device half: kernels/cusparse_gpu.cpp.

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

class Cusparse final : public SpmmKernel {
 public:
  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return {}; }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    return packed_as<CsrPacked>(packed).row_lengths();
  }
};

const Register<SpmmKernel> entry{{
    .name = "cusparse",
    .summary = "cuSPARSE CSR SpMM in FP32, the best of its algorithms 1, 2 and 3",
    .make = [](const Params&) { return std::make_unique<Cusparse>(); },
}};

}  // namespace
}  // namespace tessera
