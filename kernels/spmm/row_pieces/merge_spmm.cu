// Device half of merge_spmm. See kernels/spmm/row_pieces/merge_spmm.cpp.

#include "kernels/spmm/row_pieces/merge_spmm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

template <int kLanes>
Kernels pick_unroll(int unroll) {
  if (unroll == 4) return shares_kernels<kLanes, 4, 4, NonzeroDelivery::kBroadcast>();
  return shares_kernels<kLanes, 4, 8, NonzeroDelivery::kBroadcast>();
}

Kernels pick(const Shape& shape) {
  if (shape.lanes == 8) return pick_unroll<8>(shape.unroll);
  if (shape.lanes == 16) return pick_unroll<16>(shape.unroll);
  return pick_unroll<32>(shape.unroll);
}

const Register<GpuSpmm> entry{{
    .name = "merge_spmm",
    .summary = "device half of merge_spmm",
    .make = [](const Params& params) { return make_gpu_spmm(merge_spmm::method(params), pick); },
}};

}  // namespace
}  // namespace tessera
