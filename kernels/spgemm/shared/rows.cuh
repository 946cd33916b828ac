// The analysis of rows that SpGEMM kernels share: A and B as a kernel reads them, the number of
// products of each row (nonzero a_ik has as many as row k of B has nonzeros) and of all rows,
// prefix sums, and slices of rows with a bounded number of products.
#pragma once

#include <cub/device/device_scan.cuh>
#include <limits>
#include <vector>

#include "kernels/gpu_spgemm.hpp"

namespace tessera::spgemm {

/// A CSR matrix on the device, as a kernel's parameter.
struct CsrView {
  CsrView(const DeviceCsr& matrix)
      : rows(matrix.rows),
        cols(matrix.cols),
        nnz(matrix.nnz),
        row_offsets(matrix.row_offsets.data()),
        col_indices(matrix.col_indices.data()),
        values(matrix.values.data()) {}

  __device__ std::int64_t row_length(std::int64_t row) const {
    return row_offsets[row + 1] - row_offsets[row];
  }

  std::int32_t rows, cols;
  std::int64_t nnz;
  const std::int64_t* row_offsets;  // [rows + 1]
  const std::int32_t* col_indices;  // [nnz]
  const float* values;              // [nnz]
};

/// Throws an Error where the shapes do not fit, and Unsupported where an operand has more nonzeros
/// than 32 bits count.
inline void require_operands(const CsrMatrix& a, const CsrMatrix& b) {
  require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  require<Unsupported>(a.nnz() <= kMost && b.nnz() <= kMost,
                       "A has {} and B {} nonzeros; an operand may have at most {}", a.nnz(),
                       b.nnz(), kMost);
}

/// alpha * sum; with alpha = 1 the bits of the sum.
__device__ inline float scaled(float alpha, float sum) { return alpha == 1 ? sum : alpha * sum; }

/// The number of thread blocks for `count` units, between one and 2^30. A kernel with more units
/// loops in strides of the grid.
inline unsigned grid_for(std::int64_t count, int units_per_block) {
  constexpr std::int64_t kMost = 1 << 30;
  const std::int64_t blocks = (count + units_per_block - 1) / units_per_block;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMost ? blocks : kMost);
}

/// This thread's number in its grid, and the number of threads there.
__device__ inline std::int64_t grid_thread() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t grid_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

/// sums[i] = from[0] + ... + from[i - 1], i in [0, count), in the type of the sums; may be in
/// place. The caller provides scratch memory; with nullptr the call only sets its size, as in CUB.
template <class From, class To>
void running_sum(void* scratch, std::size_t& bytes, From from, To* sums, std::int64_t count,
                 cudaStream_t stream) {
  cuda_check(cub::DeviceScan::ExclusiveScan(scratch, bytes, from, sums, cuda::std::plus<To>(),
                                            To{0}, count, stream),
             "summing up");
}
template <class To, class From>
std::int64_t running_sum_bytes(From from, std::int64_t count) {
  std::size_t bytes = 0;
  running_sum(nullptr, bytes, from, static_cast<To*>(nullptr), count, nullptr);
  return static_cast<std::int64_t>(bytes);
}
/// The same in scratch memory of at least running_sum_bytes().
template <class From, class To>
void running_sum(const RunArray<std::byte>& scratch, From from, To* sums, std::int64_t count,
                 cudaStream_t stream) {
  auto bytes = static_cast<std::size_t>(scratch.size());
  running_sum(static_cast<void*>(scratch.data()), bytes, from, sums, count, stream);
}

/// Copies values from the device to the host. Waits for the stream.
template <class T>
std::vector<T> read_back(ProductRun& run, const T* values, std::int64_t count) {
  std::vector<T> host(static_cast<std::size_t>(count));
  cuda_check(cudaMemcpyAsync(host.data(), values, host.size() * sizeof(T), cudaMemcpyDeviceToHost,
                             run.stream()),
             "reading from the device");
  cuda_check(cudaStreamSynchronize(run.stream()), "waiting for a product");
  return host;
}
template <class T>
T read_back(ProductRun& run, const T* value) {
  return read_back(run, value, 1)[0];
}

/// Counts the products of every row, and writes a zero after them. [rows of A + 1]
void count_row_products(CsrView a, CsrView b, std::int64_t* products, cudaStream_t stream);

/// With at most this many products, C is allocated before its nonzeros are counted, with room for
/// one nonzero per product: a single allocation, for C and the workspace, is faster than two with a
/// wait between them.
inline constexpr std::int64_t kMostProductsOfRoom = 8 << 20;

constexpr int kAddThreads = 256;

/// Adds the products of the nonzeros of A from `first` on, `stride` apart, to *products. Every lane
/// of the warp has to call it.
template <class Offset>
__device__ void add_products_from(std::int64_t first, std::int64_t stride,
                                  std::int64_t nonzeros_of_a,
                                  const std::int32_t* __restrict__ a_cols,
                                  const Offset* __restrict__ b_offsets,
                                  unsigned long long* products) {
  long long own = 0;
  for (std::int64_t k = first; k < nonzeros_of_a; k += stride)
    own += b_offsets[a_cols[k] + 1] - b_offsets[a_cols[k]];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) own += __shfl_xor_sync(0xffffffff, own, step);
  if (threadIdx.x % 32 == 0 && own > 0) atomicAdd(products, static_cast<unsigned long long>(own));
}

template <class Offset>
__global__ void __launch_bounds__(kAddThreads)
    add_all_products(std::int64_t nonzeros_of_a, const std::int32_t* __restrict__ a_cols,
                     const Offset* __restrict__ b_offsets, unsigned long long* products) {
  add_products_from(grid_thread(), grid_threads(), nonzeros_of_a, a_cols, b_offsets, products);
}

/// The number of thread blocks of add_all_products, at least one.
inline unsigned blocks_to_add(std::int64_t nonzeros_of_a) {
  constexpr std::int64_t kMostThreads = 1024 * kAddThreads;
  return grid_for(nonzeros_of_a < kMostThreads ? nonzeros_of_a : kMostThreads, kAddThreads);
}

/// Adds the number of all products to *products, on the device. b_offsets [rows of B + 1]
template <class Offset>
void add_products(std::int64_t nonzeros_of_a, const std::int32_t* a_cols, const Offset* b_offsets,
                  unsigned long long* products, cudaStream_t stream) {
  if (nonzeros_of_a == 0) return;
  add_all_products<Offset><<<blocks_to_add(nonzeros_of_a), kAddThreads, 0, stream>>>(
      nonzeros_of_a, a_cols, b_offsets, products);
  cuda_check(cudaGetLastError(), "counting products");
}

/// The first row of a slice.
struct RowCut {
  std::int64_t row;
  std::int64_t products, nonzeros;  // of all earlier rows
};

/// Cuts rows into slices of at most `bound` products each, or of one row. Slice i is the rows from
/// cut i to before cut i + 1; without rows there is no slice. products_before is [rows + 1], and
/// its last element is `products`. Waits for the stream where there are several slices.
std::vector<RowCut> cut_rows(ProductRun& run, CsrView a, const std::int64_t* products_before,
                             std::int64_t products, std::int64_t bound);

}  // namespace tessera::spgemm
