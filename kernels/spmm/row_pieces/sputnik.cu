// Device half of sputnik. See kernels/spmm/row_pieces/sputnik.cpp.

#include "kernels/spmm/row_pieces/sputnik.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces.cuh"

namespace tessera {
namespace {

using namespace row_pieces;

const Register<GpuSpmm> entry{{
    .name = "sputnik",
    .summary = "device half of sputnik",
    .make =
        [](const Params& params) {
          return make_gpu_spmm(sputnik::method(params), broadcast_kernels<4, 8, 16>);
        },
}};

}  // namespace
}  // namespace tessera
