// The limits of the current GPU (kernels/gpu_limits.hpp), as the CUDA runtime states them.
#pragma once

#include "kernels/gpu_limits.hpp"

namespace tessera {

GpuLimits limits_of_gpu();

}  // namespace tessera
