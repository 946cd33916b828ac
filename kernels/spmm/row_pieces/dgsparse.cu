// Device half of dgsparse. See kernels/spmm/row_pieces/dgsparse.cpp.

#include "kernels/spmm/row_pieces/dgsparse.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

template <int kLanes>
Kernels parallel() {
  return pieces_kernels<kLanes, 4, 4, NonzeroDelivery::kOwn, 32 / kLanes>();
}

template <int kLanes, int kValues, NonzeroDelivery kDelivery>
Kernels pick_balance(bool streams) {
  if (streams) return shares_kernels<kLanes, kValues, 8, kDelivery>();
  return pieces_kernels<kLanes, kValues, 4, kDelivery>();
}

Kernels pick(const Shape& shape) {
  const bool streams = shape.streams;
  switch (shape.reach) {
    case NonzeroDelivery::kOwn:
      if (shape.lanes == 1) return parallel<1>();
      if (shape.lanes == 2) return parallel<2>();
      return shape.lanes == 4 ? parallel<4>() : parallel<8>();
    case NonzeroDelivery::kShared:
      if (shape.values == 1) return pick_balance<32, 1, NonzeroDelivery::kShared>(streams);
      if (shape.values == 2) return pick_balance<32, 2, NonzeroDelivery::kShared>(streams);
      return pick_balance<32, 4, NonzeroDelivery::kShared>(streams);
    default:
      if (shape.lanes == 8) return pick_balance<8, 4, NonzeroDelivery::kBroadcast>(streams);
      if (shape.lanes == 16) return pick_balance<16, 4, NonzeroDelivery::kBroadcast>(streams);
      return pick_balance<32, 4, NonzeroDelivery::kBroadcast>(streams);
  }
}

const Register<GpuSpmm> entry{{
    .name = "dgsparse",
    .summary = "device half of dgsparse",
    .make = [](const Params& params) { return make_gpu_spmm(dgsparse::method(params), pick); },
}};

}  // namespace
}  // namespace tessera
