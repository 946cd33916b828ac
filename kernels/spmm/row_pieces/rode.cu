// Device half of rode. See kernels/spmm/row_pieces/rode.cpp.

#include "kernels/spmm/row_pieces/rode.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

/// The compiled tiles.
KernelInstances select(const UnitShape& shape) {
  return row_part_instances<Tile<8, 4, 4, NonzeroDelivery::kBroadcastLoads>,
                            Tile<8, 4, 8, NonzeroDelivery::kBroadcastLoads>,
                            Tile<16, 4, 4, NonzeroDelivery::kBroadcastLoads>,
                            Tile<16, 4, 8, NonzeroDelivery::kBroadcastLoads>,
                            Tile<32, 4, 4, NonzeroDelivery::kBroadcastLoads>,
                            Tile<32, 4, 8, NonzeroDelivery::kBroadcastLoads>>(shape);
}

const Register<GpuSpmm> entry{{
    .name = "rode",
    .summary = "device half of rode",
    .make = [](const Params& params) { return make_gpu_spmm(rode::method(params), select); },
}};

}  // namespace
}  // namespace tessera
