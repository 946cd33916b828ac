// FP16 operands of closed libraries: A's values rounded once on the host, B's in every launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// The bits of the values, each rounded to the nearest FP16 number.
std::vector<std::uint16_t> to_half(std::span<const float> values);

/// The same on the device for `count` elements. Enqueues one kernel on the stream.
void convert_to_half(const float* from, std::int64_t count, std::uint16_t* to, cudaStream_t stream);

/// Loads that kernel onto the current device, so that the first launch does not wait for it.
void load_convert_to_half();

}  // namespace tessera
