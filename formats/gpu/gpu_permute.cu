// A thread block moves nonzeros that follow each other in the new order, as many as any other: no
// long row delays it. It searches the rows of the first and of the last, and each thread between
// them.

#include <algorithm>

#include "formats/gpu/gpu_permute.hpp"
#include "formats/gpu/running_sum.cuh"

namespace tessera {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kNonzeros = 4 * kThreads;  // of a thread block

/// The length of a row in the new order; 0 behind the last row.
struct LengthOf {
  const std::int64_t* row_offsets;
  const std::int32_t* old_of_new;
  std::int64_t rows;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const {
    if (row >= rows) return 0;
    const std::int32_t old = old_of_new[row];
    return row_offsets[old + std::int64_t{1}] - row_offsets[old];
  }
};

/// The last row of [first, last) that begins at or before the nonzero.
__device__ std::int64_t row_of(const std::int64_t* row_offsets, std::int64_t first,
                               std::int64_t last, std::int64_t nonzero) {
  while (last - first > 1) {
    const std::int64_t middle = (first + last) / 2;
    (row_offsets[middle] <= nonzero ? first : last) = middle;
  }
  return first;
}

__global__ void __launch_bounds__(kThreads)
    move_nonzeros(DeviceCsr from, const std::int32_t* old_of_new, const std::int64_t* row_offsets,
                  std::int32_t* col_indices, float* values) {
  __shared__ std::int64_t ends[2];
  const std::int64_t first = blockIdx.x * kNonzeros, last = min(first + kNonzeros, from.nnz);
  if (threadIdx.x < 2)
    ends[threadIdx.x] = row_of(row_offsets, 0, from.rows, threadIdx.x == 0 ? first : last - 1);
  __syncthreads();
  for (std::int64_t k = first + threadIdx.x; k < last; k += kThreads) {
    const std::int64_t row = row_of(row_offsets, ends[0], ends[1] + 1, k);
    const std::int64_t old = from.row_offsets[old_of_new[row]] + k - row_offsets[row];
    col_indices[k] = from.col_indices[old];
    values[k] = from.values[old];
  }
}

}  // namespace

GpuPermuted::GpuPermuted(const DeviceCsr& matrix, const std::int32_t* old_of_new,
                         cudaStream_t stream)
    : row_offsets_(8 * (matrix.rows + std::int64_t{1}), stream),
      col_indices_(4 * matrix.nnz, stream),
      values_(4 * matrix.nnz, stream),
      view_{matrix.rows,
            matrix.cols,
            matrix.nnz,
            row_offsets_.as<std::int64_t>(),
            col_indices_.as<std::int32_t>(),
            values_.as<float>()} {
  const auto lengths =
      thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                      LengthOf{matrix.row_offsets, old_of_new, matrix.rows});
  running_sum(lengths, row_offsets_.as<std::int64_t>(), matrix.rows + std::int64_t{1}, stream);
  if (matrix.nnz == 0) return;
  const std::int64_t blocks = (matrix.nnz + kNonzeros - 1) / kNonzeros;
  move_nonzeros<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      matrix, old_of_new, row_offsets_.as<std::int64_t>(), col_indices_.as<std::int32_t>(),
      values_.as<float>());
  cuda_check(cudaGetLastError(), "moving rows to their new places");
}

}  // namespace tessera
