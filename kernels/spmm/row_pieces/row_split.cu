// Device half of row_split. See kernels/spmm/row_pieces/row_split.cpp.

#include "kernels/spmm/row_pieces/row_split.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

/// The compiled tiles.
KernelInstances select(const UnitShape& shape) {
  return row_part_instances<Tile<32, 1, 4, NonzeroDelivery::kWarpShuffles>,
                            Tile<32, 1, 8, NonzeroDelivery::kWarpShuffles>,
                            Tile<32, 1, 16, NonzeroDelivery::kWarpShuffles>,
                            Tile<32, 2, 4, NonzeroDelivery::kWarpShuffles>,
                            Tile<32, 2, 8, NonzeroDelivery::kWarpShuffles>,
                            Tile<32, 2, 16, NonzeroDelivery::kWarpShuffles>,
                            Tile<32, 4, 4, NonzeroDelivery::kWarpShuffles>,
                            Tile<32, 4, 8, NonzeroDelivery::kWarpShuffles>,
                            Tile<32, 4, 16, NonzeroDelivery::kWarpShuffles>>(shape);
}

const Register<GpuSpmm> entry{{
    .name = "row_split",
    .summary = "device half of row_split",
    .make = [](const Params& params) { return make_gpu_spmm(row_split::method(params), select); },
}};

}  // namespace
}  // namespace tessera
