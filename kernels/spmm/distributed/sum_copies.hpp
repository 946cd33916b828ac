// Sums of the same elements on several GPUs, added in the order of the copies.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera {

/// Replaces each of `c` [elements], the sums of copy `own`, by the sum over all copies: `others`
/// [copies - 1 x elements] has those of the other ones in order. Enqueues one kernel.
void sum_copies(float* c, const float* others, std::int64_t elements, int own, int copies,
                cudaStream_t stream);

/// Loads its kernel onto the current device.
void load_sum_copies();

}  // namespace tessera
