// Device half of dtc_spmm: its launches. The kernels are kernel.cuh. See
// kernels/spmm/dtc_spmm/dtc_spmm.cpp.

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/dtc_spmm/compiled.cuh"

namespace tessera {
namespace {

using namespace dtc_spmm;

Kernel kernel_of(const Variant& variant) {
  return variant.depth == 4 ? kernel_of_depth_4(variant) : kernel_of_depth_8(variant);
}

class GpuDtcSpmm final : public GpuSpmm {
 public:
  explicit GpuDtcSpmm(const DtcSpmmOptions& options) : options_(options) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    const auto& a = packed_as<MeTcf>(packed);
    return std::make_unique<row_windows::TaskMultiplication<bool>>(
        window_tile::PackedOnDevice(a, window16_tile::kWindowRows), options_.cut(a), n,
        row_windows::TaskLaunch<bool>{.kernel_name = "dtc_spmm",
                                      .aligned = kernel_of(options_.variant(n, true)),
                                      .unaligned = kernel_of(options_.variant(n, false)),
                                      .options = {options_.double_buffer},
                                      .schedule = options_.schedule(n),
                                      .shared_bytes = options_.shared_bytes(n),
                                      .combine = options_.combine});
  }

 private:
  DtcSpmmOptions options_;
};

const Register<GpuSpmm> entry{{
    .name = "dtc_spmm",
    .summary = "device half of dtc_spmm",
    .make =
        [](const Params& params) { return std::make_unique<GpuDtcSpmm>(DtcSpmmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
