// Row offsets in 32 bits, and the row of every nonzero, on the device.
#pragma once

#include <thrust/execution_policy.h>
#include <thrust/transform.h>

#include "formats/gpu/window_kernel.cuh"

namespace tessera {

template <class T>
struct Narrow {
  __host__ __device__ T operator()(std::int64_t offset) const { return static_cast<T>(offset); }
};

/// Writes A's row offsets as T to to[rows + 1].
template <class T>
void narrow_offsets(const DeviceCsr& matrix, T* to, cudaStream_t stream) {
  thrust::transform(thrust::cuda::par_nosync.on(stream), matrix.row_offsets,
                    matrix.row_offsets + matrix.rows + 1, to, Narrow<T>());
}

struct WriteRows {
  std::int32_t* row_of;  // [nnz]

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const auto first_row = static_cast<std::int32_t>(window.index * window.all.height);
    window.for_each_entry([&](int row, std::int64_t k) { row_of[k] = first_row + row; });
  }
};

/// Writes the row of every nonzero to row_of[nnz], in CSR order.
inline void write_rows(const DeviceCsr& matrix, std::int32_t* row_of, cudaStream_t stream) {
  constexpr int kRows = 16;  // at a time; any will do
  const WindowView rows{.matrix = matrix,
                        .height = kRows,
                        .windows = (std::int64_t{matrix.rows} + kRows - 1) / kRows};
  for_each_window(rows, WriteRows{row_of}, stream);
}

}  // namespace tessera
