// Device half of merge_spmm. See kernels/spmm/row_pieces/merge_spmm.cpp.

#include "kernels/spmm/row_pieces/merge_spmm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

/// The compiled tiles.
KernelInstances select(const UnitShape& shape) {
  return share_instances<Tile<8, 4, 4, NonzeroDelivery::kBroadcastLoads>,
                         Tile<8, 4, 8, NonzeroDelivery::kBroadcastLoads>,
                         Tile<16, 4, 4, NonzeroDelivery::kBroadcastLoads>,
                         Tile<16, 4, 8, NonzeroDelivery::kBroadcastLoads>,
                         Tile<32, 4, 4, NonzeroDelivery::kBroadcastLoads>,
                         Tile<32, 4, 8, NonzeroDelivery::kBroadcastLoads>>(shape);
}

const Register<GpuSpmm> entry{{
    .name = "merge_spmm",
    .summary = "device half of merge_spmm",
    .make = [](const Params& params) { return make_gpu_spmm(merge_spmm::method(params), select); },
}};

}  // namespace
}  // namespace tessera
