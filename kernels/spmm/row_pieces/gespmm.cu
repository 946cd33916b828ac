// Device half of gespmm. See kernels/spmm/row_pieces/gespmm.cpp.

#include "kernels/spmm/row_pieces/gespmm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

/// The compiled tiles.
KernelInstances select(const UnitShape& shape) {
  return row_part_instances<Tile<32, 1, 4, NonzeroDelivery::kSharedMemory>,
                            Tile<32, 1, 8, NonzeroDelivery::kSharedMemory>,
                            Tile<32, 2, 4, NonzeroDelivery::kSharedMemory>,
                            Tile<32, 2, 8, NonzeroDelivery::kSharedMemory>,
                            Tile<32, 4, 4, NonzeroDelivery::kSharedMemory>,
                            Tile<32, 4, 8, NonzeroDelivery::kSharedMemory>,
                            Tile<32, 8, 4, NonzeroDelivery::kSharedMemory>,
                            Tile<32, 8, 8, NonzeroDelivery::kSharedMemory>>(shape);
}

const Register<GpuSpmm> entry{{
    .name = "gespmm",
    .summary = "device half of gespmm",
    .make = [](const Params& params) { return make_gpu_spmm(gespmm::method(params), select); },
}};

}  // namespace
}  // namespace tessera
