// Device half of rode. See kernels/rode.cpp.

#include "kernels/rode.hpp"

#include "formats/base/registry.hpp"
#include "kernels/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

template <int kLanes>
Kernels pick_unroll(int unroll) {
  if (unroll == 4) return pieces_kernels<kLanes, 4, 4, Reach::kBroadcast>();
  return pieces_kernels<kLanes, 4, 8, Reach::kBroadcast>();
}

Kernels pick(const Shape& shape) {
  if (shape.lanes == 8) return pick_unroll<8>(shape.unroll);
  if (shape.lanes == 16) return pick_unroll<16>(shape.unroll);
  return pick_unroll<32>(shape.unroll);
}

const Register<GpuSpmm> entry{{
    .name = "rode",
    .summary = "device half of rode",
    .make = [](const Params& params) { return make_gpu_spmm(rode::method(params), pick); },
}};

}  // namespace
}  // namespace tessera
