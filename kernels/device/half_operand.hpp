// FP16 operands of closed libraries whose B is FP32 in memory: every launch rounds it on the
// device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera {

/// Rounds `count` elements to nearest even on the device. Enqueues one kernel on the stream.
void convert_to_half(const float* from, std::int64_t count, std::uint16_t* to, cudaStream_t stream);

/// Loads that kernel onto the current device, so that the first launch does not wait for it.
void load_convert_to_half();

}  // namespace tessera
