// Device half of magicube. See kernels/spmm/vector_tiles/magicube.cpp; its kernels are those of
// vector_tiles.cuh.

#include "formats/base/registry.hpp"
#include "kernels/spmm/vector_tiles/magicube.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles_gpu.hpp"

namespace tessera {
namespace {

using magicube::MagicubeOptions;

class GpuMagicube final : public GpuSpmm {
 public:
  explicit GpuMagicube(MagicubeOptions choices) : choices_(std::move(choices)) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    const vector_tiles::Vectors a(packed_as<SrBcrs>(packed));
    return vector_tiles::upload(a, choices_.plan(a, n), n);
  }

 private:
  MagicubeOptions choices_;
};

const Register<GpuSpmm> entry{{
    .name = "magicube",
    .summary = "device half of magicube",
    .make =
        [](const Params& params) { return std::make_unique<GpuMagicube>(MagicubeOptions(params)); },
}};

}  // namespace
}  // namespace tessera
