// Device half of hash_spgemm. See kernels/spgemm/hash/hash_spgemm.cpp.

#include "kernels/spgemm/hash/hash_spgemm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/hash/hash_rows_gpu.hpp"

namespace tessera {
namespace {

const Register<GpuSpgemm> entry{{
    .name = "hash_spgemm",
    .summary = "device half of hash_spgemm",
    .make = [](const Params& params) { return hash_rows::make_gpu(hash_spgemm::options(params)); },
}};

}  // namespace
}  // namespace tessera
