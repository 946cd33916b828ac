// Device half of dgsparse. See kernels/dgsparse.cpp.

#include "kernels/dgsparse.hpp"

#include "formats/base/registry.hpp"
#include "kernels/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

template <int kLanes>
Kernels parallel() {
  return pieces_kernels<kLanes, 4, 4, Reach::kOwn, 32 / kLanes>();
}

template <int kLanes, int kValues, Reach kReach>
Kernels pick_balance(bool streams) {
  if (streams) return shares_kernels<kLanes, kValues, 8, kReach>();
  return pieces_kernels<kLanes, kValues, 4, kReach>();
}

Kernels pick(const Shape& shape) {
  const bool streams = shape.streams;
  switch (shape.reach) {
    case Reach::kOwn:
      if (shape.lanes == 1) return parallel<1>();
      if (shape.lanes == 2) return parallel<2>();
      return shape.lanes == 4 ? parallel<4>() : parallel<8>();
    case Reach::kShared:
      if (shape.values == 1) return pick_balance<32, 1, Reach::kShared>(streams);
      if (shape.values == 2) return pick_balance<32, 2, Reach::kShared>(streams);
      return pick_balance<32, 4, Reach::kShared>(streams);
    default:
      if (shape.lanes == 8) return pick_balance<8, 4, Reach::kBroadcast>(streams);
      if (shape.lanes == 16) return pick_balance<16, 4, Reach::kBroadcast>(streams);
      return pick_balance<32, 4, Reach::kBroadcast>(streams);
  }
}

const Register<GpuSpmm> entry{{
    .name = "dgsparse",
    .summary = "device half of dgsparse",
    .make = [](const Params& params) { return make_gpu_spmm(dgsparse::method(params), pick); },
}};

}  // namespace
}  // namespace tessera
