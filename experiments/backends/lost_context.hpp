// The loss of this process's CUDA context.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera {

/// True when the context is lost: after an illegal access, a failed assertion or an uncorrectable
/// error of memory, every later call of the runtime fails. Waits for the GPU.
inline bool context_is_lost() { return cudaDeviceSynchronize() != cudaSuccess; }

}  // namespace tessera
