// Work on the GPU that may find too little memory.
#pragma once

#include <cuda_runtime_api.h>

#include "formats/base/check.hpp"

namespace tessera {

/// Calls `work`. The runtime keeps the error of an allocation until it is asked for, and the next
/// product's launch would report it: it is taken from there when `work` throws OutOfMemory.
template <class Work>
auto forgetting_out_of_memory(Work work) {
  try {
    return work();
  } catch (const OutOfMemory&) {
    cudaGetLastError();
    throw;
  }
}

}  // namespace tessera
