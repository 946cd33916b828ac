// The analysis of rows for SpGEMM kernels. See kernels/spgemm/shared/rows.cuh.

#include "kernels/spgemm/shared/rows.cuh"

#include <cub/block/block_reduce.cuh>

namespace tessera::spgemm {
namespace {

constexpr int kCountThreads = 256, kCountLanes = 8;
constexpr int kCountRows = kCountThreads / kCountLanes;  // rows of A per thread block
constexpr std::int64_t kLongRow = 512;  // the whole thread block counts a row of more nonzeros

__device__ inline std::int64_t count_products(CsrView a, CsrView b, std::int64_t begin,
                                              std::int64_t end, int lane, int lanes) {
  std::int64_t sum = 0;
  for (std::int64_t k = begin + lane; k < end; k += lanes) sum += b.row_length(a.col_indices[k]);
  return sum;
}

/// Counts products[row], and sets products[rows] = 0. A row gets eight lanes, a long row its whole
/// thread block.
__global__ void __launch_bounds__(kCountThreads)
    count_by_rows(CsrView a, CsrView b, std::int64_t* __restrict__ products) {
  using Reduce = cub::BlockReduce<std::int64_t, kCountThreads>;
  __shared__ typename Reduce::TempStorage scratch;
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kCountRows;
  const std::int64_t row = first_row + threadIdx.x / kCountLanes;
  std::int64_t sum = 0;
  const bool is_short = row < a.rows && a.row_length(row) <= kLongRow;
  if (is_short)
    sum = count_products(a, b, a.row_offsets[row], a.row_offsets[row + 1],
                         threadIdx.x % kCountLanes, kCountLanes);
  for (int step = kCountLanes / 2; step > 0; step /= 2)
    sum += __shfl_down_sync(0xffffffff, sum, step, kCountLanes);
  if (threadIdx.x % kCountLanes == 0 && (is_short || row == a.rows)) products[row] = sum;
  for (int i = 0; i < kCountRows && first_row + i < a.rows; ++i) {
    const std::int64_t begin = a.row_offsets[first_row + i], end = a.row_offsets[first_row + i + 1];
    if (end - begin <= kLongRow) continue;
    const std::int64_t all = Reduce(scratch).Sum(
        count_products(a, b, begin, end, static_cast<int>(threadIdx.x), kCountThreads));
    if (threadIdx.x == 0) products[first_row + i] = all;
    __syncthreads();
  }
}

__global__ void cut(CsrView a, const std::int64_t* __restrict__ products_before, std::int64_t bound,
                    RowCut* __restrict__ cuts, std::int32_t* __restrict__ count) {
  const std::int32_t rows = a.rows;
  std::int32_t row = 0, i = 0;
  cuts[0] = {0, 0, 0};
  while (row < rows) {
    // The slice ends before the last row that keeps it within the bound; it has at least one row.
    const std::int64_t limit = products_before[row] + bound;
    std::int32_t low = row + 1, high = rows;
    while (low < high) {
      const std::int32_t middle = static_cast<std::int32_t>((std::int64_t{low} + high + 1) / 2);
      if (products_before[middle] <= limit)
        low = middle;
      else
        high = middle - 1;
    }
    row = low;
    cuts[++i] = {row, products_before[row], a.row_offsets[row]};
  }
  *count = i;
}

}  // namespace

void count_row_products(CsrView a, CsrView b, std::int64_t* products, cudaStream_t stream) {
  count_by_rows<<<grid_for(std::int64_t{a.rows} + 1, kCountRows), kCountThreads, 0, stream>>>(
      a, b, products);
  cuda_check(cudaGetLastError(), "counting products");
}

std::vector<RowCut> cut_rows(ProductRun& run, CsrView a, const std::int64_t* products_before,
                             std::int64_t products, std::int64_t bound) {
  if (a.rows == 0) return {{0, 0, 0}};
  if (products <= bound) return {{0, 0, 0}, {a.rows, products, a.nnz}};
  RunBlock block;
  // Two slices in a row have more than the bound.
  const auto at_cuts = block.place<RowCut>(2 * (products / bound) + 3);
  const auto at_count = block.place<std::int32_t>(1);
  block.take(run);
  auto* cuts = block.data<RowCut>(at_cuts);
  auto* count = block.data<std::int32_t>(at_count);
  cut<<<1, 1, 0, run.stream()>>>(a, products_before, bound, cuts, count);
  cuda_check(cudaGetLastError(), "cutting rows into slices");
  return read_back(run, cuts, std::int64_t{read_back(run, count)} + 1);
}

}  // namespace tessera::spgemm
