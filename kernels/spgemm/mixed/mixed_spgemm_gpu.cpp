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
