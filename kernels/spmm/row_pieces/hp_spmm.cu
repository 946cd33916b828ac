// Device half of hp_spmm. See kernels/spmm/row_pieces/hp_spmm.cpp.

#include "kernels/spmm/row_pieces/hp_spmm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

/// The compiled tiles.
KernelInstances select(const UnitShape& shape) {
  return share_instances<Tile<32, 1, 4, NonzeroDelivery::kSharedMemory>,
                         Tile<32, 1, 8, NonzeroDelivery::kSharedMemory>,
                         Tile<32, 2, 4, NonzeroDelivery::kSharedMemory>,
                         Tile<32, 2, 8, NonzeroDelivery::kSharedMemory>,
                         Tile<32, 4, 4, NonzeroDelivery::kSharedMemory>,
                         Tile<32, 4, 8, NonzeroDelivery::kSharedMemory>>(shape);
}

const Register<GpuSpmm> entry{{
    .name = "hp_spmm",
    .summary = "device half of hp_spmm",
    .make = [](const Params& params) { return make_gpu_spmm(hp_spmm::method(params), select); },
}};

}  // namespace
}  // namespace tessera
