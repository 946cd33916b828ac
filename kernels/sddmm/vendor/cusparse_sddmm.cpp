// NVIDIA's cuSPARSE SDDMM on CSR, host half: FP32, or X and Y in FP16 with sums in FP32.
//
// A closed library: no emulation, no work description. It computes alpha (X Y^T) at the nonzeros
// of A plus beta C, without the values of A. Device half:
// kernels/sddmm/vendor/cusparse_sddmm_gpu.cpp.

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/sddmm/shared/sddmm_options.hpp"
#include "kernels/sddmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {
namespace {

class CusparseSddmm final : public SddmmKernel {
 public:
  explicit CusparseSddmm(const sddmm::SddmmOptions& options) : options_(options) {}

  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 1; }

  Arithmetic arithmetic() const override {
    if (options_.storage.b == ElementType::kFp32) return {.storage = options_.storage};
    // NVIDIA does not document the units that multiply FP16: the bound is the wider one, of tensor
    // cores.
    const Precision& precision = find_precision(name_of(options_.storage.b));
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type_of(precision.conversion),
            .mma_depth = precision.depth,
            .input_error = precision.input_error,
            .storage = options_.storage};
  }

 private:
  sddmm::SddmmOptions options_;
};

const Register<SddmmKernel> entry{{
    .name = "cusparse_sddmm",
    .summary = "cuSPARSE SDDMM on CSR",
    .params = sddmm::storage_params(),
    .make =
        [](const Params& params) {
          return std::make_unique<CusparseSddmm>(sddmm::SddmmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
