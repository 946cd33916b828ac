// Products of vectors on the device: what flash_spmm and magicube upload and launch.
#pragma once

#include <memory>

#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles.hpp"

namespace tessera::vector_tiles {

/// `a` is read while this runs, and not afterwards.
std::unique_ptr<GpuMultiplication> upload(const Vectors& a, const Plan& plan, std::int64_t n);

}  // namespace tessera::vector_tiles
