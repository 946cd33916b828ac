// New values for a packed A that stays on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera {

/// to[i] = places[i] == 0 ? 0 : from[places[i] - 1] for all `size` elements. `from` and `to` do not
/// overlap. An element takes 12 bytes of traffic. Enqueues one kernel on the stream.
void gather_values(const float* from, const std::uint32_t* places, std::int64_t size, float* to,
                   cudaStream_t stream);

/// Loads that kernel onto the current device, so that the first launch does not wait for it.
void load_gather_values();

}  // namespace tessera
