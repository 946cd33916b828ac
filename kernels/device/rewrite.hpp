// Dense operands and results in device memory, written anew in place.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/storage.hpp"

namespace tessera {

enum class Rewrite {
  kSame,    // every element as it is
  kNegate,  // every element with the other sign
  kPoison,  // every bit set
};

/// Reads and writes every element. Enqueues one kernel on the stream; each of the choices reads and
/// writes the same memory.
void rewrite(ElementType type, void* memory, std::int64_t elements, Rewrite how,
             cudaStream_t stream);

}  // namespace tessera
