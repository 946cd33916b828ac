// Device half of flash_spmm. See kernels/spmm/vector_tiles/flash_spmm.cpp; its kernels are those of
// vector_tiles.cuh.

#include "formats/base/registry.hpp"
#include "kernels/spmm/vector_tiles/flash_spmm.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles_gpu.hpp"

namespace tessera {
namespace {

using flash_spmm::FlashSpmmOptions;

class GpuFlashSpmm final : public GpuSpmm {
 public:
  explicit GpuFlashSpmm(FlashSpmmOptions choices) : choices_(std::move(choices)) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    const vector_tiles::Vectors a(packed_as<MeBcrs>(packed));
    return vector_tiles::upload(a, choices_.plan(a, n), n);
  }

 private:
  FlashSpmmOptions choices_;
};

const Register<GpuSpmm> entry{{
    .name = "flash_spmm",
    .summary = "device half of flash_spmm",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuFlashSpmm>(FlashSpmmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
