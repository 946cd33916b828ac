// Restoring the rows of C to the order of the file on the GPU, the cost that a row reordering adds
// to every product whose user needs the old order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera {

/// Copies row new_of_old[i] of `c` to row i of `out` [rows x n]; `c` may have more rows. Both are
/// row-major, on the device, and do not overlap. Enqueues one kernel on the stream.
void restore_rows(const float* c, const std::int32_t* new_of_old, std::int32_t rows, std::int64_t n,
                  float* out, cudaStream_t stream);

/// The same for rows of `row_bytes` bytes, a multiple of 2, at addresses that are one.
void gather_rows(const void* from, const std::int32_t* places, std::int32_t rows,
                 std::int64_t row_bytes, void* out, cudaStream_t stream);

/// Loads its kernels onto the current device, so that the first launch does not wait for it.
void load_restore_rows();

}  // namespace tessera
