// The limits of a described device (kernels/gpu_limits.hpp).
#pragma once

#include "kernels/gpu_limits.hpp"
#include "model/device.hpp"

namespace tessera {

/// Throws Unsupported for a device whose file lacks one of them.
GpuLimits described_limits(const Device& device);

}  // namespace tessera
