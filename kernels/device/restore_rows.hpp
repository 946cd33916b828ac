// Rows of C back into the order of the file, on the GPU: what a reordering of rows costs after
// every product whose user does not keep to the new order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera {

/// Row i of `out` becomes row new_of_old[i] of `c`; both [rows x n], row-major, apart, on the
/// device. Enqueues one kernel on the stream.
void restore_rows(const float* c, const std::int32_t* new_of_old, std::int32_t rows, std::int64_t n,
                  float* out, cudaStream_t stream);

}  // namespace tessera
