// Device half of sputnik. See kernels/sputnik.cpp.

#include "kernels/sputnik.hpp"

#include "formats/base/registry.hpp"
#include "kernels/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

template <int kLanes>
Kernels pick_unroll(int unroll) {
  if (unroll == 4) return pieces_kernels<kLanes, 4, 4, Reach::kBroadcast>();
  if (unroll == 8) return pieces_kernels<kLanes, 4, 8, Reach::kBroadcast>();
  return pieces_kernels<kLanes, 4, 16, Reach::kBroadcast>();
}

Kernels pick(const Shape& shape) {
  if (shape.lanes == 8) return pick_unroll<8>(shape.unroll);
  if (shape.lanes == 16) return pick_unroll<16>(shape.unroll);
  return pick_unroll<32>(shape.unroll);
}

const Register<GpuSpmm> entry{{
    .name = "sputnik",
    .summary = "device half of sputnik",
    .make = [](const Params& params) { return make_gpu_spmm(sputnik::method(params), pick); },
}};

}  // namespace
}  // namespace tessera
