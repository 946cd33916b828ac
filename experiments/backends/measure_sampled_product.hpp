// The measurement of one SDDMM on the GPU: S = X Y^T at the nonzeros of A.
#pragma once

#include "experiments/backends/backend.hpp"

namespace tessera {

/// The time of the launches and, where the point checks, S from memory that was poisoned before the
/// launch. Throws Unsupported for a kernel without a device half and what it does not take,
/// OutOfMemory where the device has too little.
SampledProductResult measure_sampled_product(const SampledMultiplication& multiplication);

}  // namespace tessera
