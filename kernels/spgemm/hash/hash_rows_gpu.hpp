// The device half that hash_spgemm and speck_spgemm share. See
// kernels/spgemm/hash/hash_bins.hpp.
#pragma once

#include <memory>

#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/hash/hash_rows.hpp"

namespace tessera::hash_rows {

std::unique_ptr<GpuSpgemm> make_gpu(const Options& options);

}  // namespace tessera::hash_rows
