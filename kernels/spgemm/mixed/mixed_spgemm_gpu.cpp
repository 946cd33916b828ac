// The device half of mixed_spgemm: that of the chosen kernel. See
// kernels/spgemm/mixed/mixed_spgemm.cpp.

#include "kernels/spgemm/mixed/mixed_spgemm.hpp"

#include <utility>

#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"

namespace tessera {
namespace {

class GpuMixedSpgemm final : public GpuSpgemm {
 public:
  explicit GpuMixedSpgemm(Params params) : params_(std::move(params)) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    const mixed_spgemm::Choice choice = mixed_spgemm::choose(a, b, params_);
    return Registry<GpuSpgemm>::instance().make(choice.path.kernel, choice.params)->upload(a, b);
  }

  std::unique_ptr<GpuSparseProduct> upload_masked(const CsrMatrix& a, const CsrMatrix& b,
                                                  const CsrMatrix& mask) const override {
    const auto& kernels = Registry<GpuSpgemm>::instance();
    if (const auto rows = mixed_spgemm::params_of_masked_rows(params_))
      return kernels.make("row_spgemm", *rows)->upload_masked(a, b, mask);
    return GpuSpgemm::upload_masked(a, b, mask);
  }

 private:
  Params params_;
};

const Register<GpuSpgemm> entry{{
    .name = "mixed_spgemm",
    .summary = "device half of mixed_spgemm",
    .make = [](const Params& params) { return std::make_unique<GpuMixedSpgemm>(params); },
}};

}  // namespace
}  // namespace tessera
