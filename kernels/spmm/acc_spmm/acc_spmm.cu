// Device half of acc_spmm: its launches. The kernels are staged.cuh, registers.cuh and
// buffered.cuh. See kernels/spmm/acc_spmm/acc_spmm.cpp.

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/acc_spmm/acc_spmm.hpp"
#include "kernels/spmm/acc_spmm/compiled.cuh"

namespace tessera {
namespace {

using namespace acc_spmm;

row_windows::TaskKernel<> kernel_of(const Variant& variant) {
  if (variant.pipeline == Pipeline::kStaged) return staged_kernel(variant);
  return variant.pipeline == Pipeline::kRegisters ? registers_kernel(variant)
                                                  : buffered_kernel(variant);
}

class GpuAccSpmm final : public GpuSpmm {
 public:
  explicit GpuAccSpmm(AccSpmmOptions options) : options_(std::move(options)) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    if (options_.encoding == NonzeroEncoding::kBytes)
      return upload_tiles(packed_as<MeTcf>(packed), n);
    return upload_tiles(packed_as<BitTcf>(packed), n);
  }

 private:
  template <class Tiles>
  std::unique_ptr<GpuMultiplication> upload_tiles(const Tiles& a, std::int64_t n) const {
    const window_tasks::Tasks tasks = options_.cut(a.row_window_offset);
    return std::make_unique<row_windows::TaskMultiplication<>>(
        window_tile::PackedOnDevice(a), tasks, n,
        row_windows::TaskLaunch<>{.kernel_name = "acc_spmm",
                                  .aligned = kernel_of(options_.variant(tasks, n, true)),
                                  .unaligned = kernel_of(options_.variant(tasks, n, false)),
                                  .options = {},
                                  .schedule = options_.schedule(n),
                                  .shared_bytes = options_.dynamic_shared_bytes(n),
                                  .combine = options_.combine,
                                  .store = options_.store,
                                  .promote = options_.precision.promote});
  }

  AccSpmmOptions options_;
};

const Register<GpuSpmm> entry{{
    .name = "acc_spmm",
    .summary = "device half of acc_spmm",
    .make =
        [](const Params& params) { return std::make_unique<GpuAccSpmm>(AccSpmmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
