// Device half of hp_spmm. See kernels/spmm/row_pieces/hp_spmm.cpp.

#include "kernels/spmm/row_pieces/hp_spmm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

template <int kValues>
Kernels pick_unroll(int unroll) {
  if (unroll == 4) return shares_kernels<32, kValues, 4, NonzeroDelivery::kShared>();
  return shares_kernels<32, kValues, 8, NonzeroDelivery::kShared>();
}

Kernels pick(const Shape& shape) {
  if (shape.values == 1) return pick_unroll<1>(shape.unroll);
  if (shape.values == 2) return pick_unroll<2>(shape.unroll);
  return pick_unroll<4>(shape.unroll);
}

const Register<GpuSpmm> entry{{
    .name = "hp_spmm",
    .summary = "device half of hp_spmm",
    .make = [](const Params& params) { return make_gpu_spmm(hp_spmm::method(params), pick); },
}};

}  // namespace
}  // namespace tessera
