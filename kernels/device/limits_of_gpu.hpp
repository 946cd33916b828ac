// The limits of the current GPU (kernels/gpu_limits.hpp), as the CUDA runtime states them.
#pragma once

#include <string_view>

#include "kernels/gpu_limits.hpp"

namespace tessera {

GpuLimits limits_of_gpu();
/// Its SMs alone, which takes one question.
int sms_of_gpu();

/// Throws Unsupported, naming the kernel, unless the current GPU runs code of compute capability
/// 9.0, which later ones do not where it uses wgmma.
void require_wgmma(std::string_view kernel);

}  // namespace tessera
