// Device half of sputnik. See kernels/spmm/row_pieces/sputnik.cpp.

#include "kernels/spmm/row_pieces/sputnik.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

/// The compiled tiles.
KernelInstances select(const UnitShape& shape) {
  return row_part_instances<Tile<8, 4, 4, NonzeroDelivery::kBroadcastLoads>,
                            Tile<8, 4, 8, NonzeroDelivery::kBroadcastLoads>,
                            Tile<8, 4, 16, NonzeroDelivery::kBroadcastLoads>,
                            Tile<16, 4, 4, NonzeroDelivery::kBroadcastLoads>,
                            Tile<16, 4, 8, NonzeroDelivery::kBroadcastLoads>,
                            Tile<16, 4, 16, NonzeroDelivery::kBroadcastLoads>,
                            Tile<32, 4, 4, NonzeroDelivery::kBroadcastLoads>,
                            Tile<32, 4, 8, NonzeroDelivery::kBroadcastLoads>,
                            Tile<32, 4, 16, NonzeroDelivery::kBroadcastLoads>>(shape);
}

const Register<GpuSpmm> entry{{
    .name = "sputnik",
    .summary = "device half of sputnik",
    .make = [](const Params& params) { return make_gpu_spmm(sputnik::method(params), select); },
}};

}  // namespace
}  // namespace tessera
