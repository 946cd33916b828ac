// Device half of rode. See kernels/spmm/row_pieces/rode.cpp.

#include "kernels/spmm/row_pieces/rode.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

const Register<GpuSpmm> entry{{
    .name = "rode",
    .summary = "device half of rode",
    .make =
        [](const Params& params) {
          return make_gpu_spmm(rode::method(params), broadcast_kernels<4, 8>);
        },
}};

}  // namespace
}  // namespace tessera
