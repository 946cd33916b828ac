// Device half of sputnik. See kernels/sputnik.cpp.

#include "kernels/sputnik.hpp"

#include "formats/base/registry.hpp"
#include "kernels/row_pieces.cuh"

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
