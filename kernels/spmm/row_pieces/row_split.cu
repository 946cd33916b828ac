// Device half of row_split. See kernels/spmm/row_pieces/row_split.cpp.

#include "kernels/spmm/row_pieces/row_split.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

template <int kValues>
Kernels pick_unroll(int unroll) {
  if (unroll == 4) return pieces_kernels<32, kValues, 4, NonzeroDelivery::kShuffle>();
  if (unroll == 8) return pieces_kernels<32, kValues, 8, NonzeroDelivery::kShuffle>();
  return pieces_kernels<32, kValues, 16, NonzeroDelivery::kShuffle>();
}

Kernels pick(const Shape& shape) {
  if (shape.values == 1) return pick_unroll<1>(shape.unroll);
  if (shape.values == 2) return pick_unroll<2>(shape.unroll);
  return pick_unroll<4>(shape.unroll);
}

const Register<GpuSpmm> entry{{
    .name = "row_split",
    .summary = "device half of row_split",
    .make = [](const Params& params) { return make_gpu_spmm(row_split::method(params), pick); },
}};

}  // namespace
}  // namespace tessera
