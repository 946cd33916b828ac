// Device half of speck_spgemm. See kernels/spgemm/hash/speck_spgemm.cpp.

#include "kernels/spgemm/hash/speck_spgemm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/hash/hash_rows_gpu.hpp"

namespace tessera {
namespace {

const Register<GpuSpgemm> entry{{
    .name = "speck_spgemm",
    .summary = "device half of speck_spgemm",
    .make = [](const Params& params) { return hash_rows::make_gpu(speck_spgemm::options(params)); },
}};

}  // namespace
}  // namespace tessera
