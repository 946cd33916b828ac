// Device half of gespmm. See kernels/spmm/row_pieces/gespmm.cpp.

#include "kernels/spmm/row_pieces/gespmm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

template <int kValues>
Kernels pick_unroll(int unroll) {
  if (unroll == 4) return pieces_kernels<32, kValues, 4, NonzeroDelivery::kShared>();
  return pieces_kernels<32, kValues, 8, NonzeroDelivery::kShared>();
}

Kernels pick(const Shape& shape) {
  switch (shape.values) {
    case 1:
      return pick_unroll<1>(shape.unroll);
    case 2:
      return pick_unroll<2>(shape.unroll);
    case 4:
      return pick_unroll<4>(shape.unroll);
    default:
      return pick_unroll<8>(shape.unroll);
  }
}

const Register<GpuSpmm> entry{{
    .name = "gespmm",
    .summary = "device half of gespmm",
    .make = [](const Params& params) { return make_gpu_spmm(gespmm::method(params), pick); },
}};

}  // namespace
}  // namespace tessera
