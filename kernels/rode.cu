// Device half of rode. See kernels/rode.cpp.

#include "kernels/rode.hpp"

#include "formats/base/registry.hpp"
#include "kernels/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

template <int kUnroll>
Kernels pick(int lanes) {
  if (lanes == 8) return pieces_kernels<8, 4, kUnroll, Reach::kBroadcast>();
  if (lanes == 16) return pieces_kernels<16, 4, kUnroll, Reach::kBroadcast>();
  return pieces_kernels<32, 4, kUnroll, Reach::kBroadcast>();
}

const Register<GpuSpmm> entry{{
    .name = "rode",
    .summary = "device half of rode",
    .make =
        [](const Params& params) {
          return make_gpu_spmm(rode::method(params), [](const Shape& shape) {
            return shape.unroll == 4 ? pick<4>(shape.lanes) : pick<8>(shape.lanes);
          });
        },
}};

}  // namespace
}  // namespace tessera
