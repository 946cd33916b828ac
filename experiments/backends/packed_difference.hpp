// Whether a matrix packed on the GPU has the bytes of the host's.
#pragma once

#include <string>

#include "formats/gpu/gpu_format.hpp"

namespace tessera {

/// Which arrays are not the host's; empty when all are. Waits for the device.
std::string packed_difference(const GpuPacked& packed, const PackedMatrix& expected);

}  // namespace tessera
