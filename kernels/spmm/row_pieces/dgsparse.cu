// Device half of dgsparse. See kernels/spmm/row_pieces/dgsparse.cpp.

#include "kernels/spmm/row_pieces/dgsparse.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

/// The compiled tiles: of shares for balance = nnz, of row parts for balance = row.
KernelInstances select(const UnitShape& shape) {
  if (shape.streams)
    return share_instances<Tile<32, 1, 8, NonzeroDelivery::kSharedMemory>,
                           Tile<32, 2, 8, NonzeroDelivery::kSharedMemory>,
                           Tile<32, 4, 8, NonzeroDelivery::kSharedMemory>,
                           Tile<8, 4, 8, NonzeroDelivery::kBroadcastLoads>,
                           Tile<16, 4, 8, NonzeroDelivery::kBroadcastLoads>,
                           Tile<32, 4, 8, NonzeroDelivery::kBroadcastLoads>>(shape);
  return row_part_instances<Tile<1, 4, 4, NonzeroDelivery::kLoadsPerGroup, 32>,
                            Tile<2, 4, 4, NonzeroDelivery::kLoadsPerGroup, 16>,
                            Tile<4, 4, 4, NonzeroDelivery::kLoadsPerGroup, 8>,
                            Tile<8, 4, 4, NonzeroDelivery::kLoadsPerGroup, 4>,
                            Tile<32, 1, 4, NonzeroDelivery::kSharedMemory>,
                            Tile<32, 2, 4, NonzeroDelivery::kSharedMemory>,
                            Tile<32, 4, 4, NonzeroDelivery::kSharedMemory>,
                            Tile<8, 4, 4, NonzeroDelivery::kBroadcastLoads>,
                            Tile<16, 4, 4, NonzeroDelivery::kBroadcastLoads>,
                            Tile<32, 4, 4, NonzeroDelivery::kBroadcastLoads>>(shape);
}

const Register<GpuSpmm> entry{{
    .name = "dgsparse",
    .summary = "device half of dgsparse",
    .make = [](const Params& params) { return make_gpu_spmm(dgsparse::method(params), select); },
}};

}  // namespace
}  // namespace tessera
