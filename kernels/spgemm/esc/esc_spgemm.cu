// Device half of esc_spgemm: expand, sort, compress. See kernels/spgemm/esc/esc_spgemm.cpp.

#include "kernels/spgemm/esc/esc_spgemm.hpp"

#include <algorithm>

#include "formats/base/registry.hpp"
#include "kernels/spgemm/shared/slices.cuh"

namespace tessera {
namespace {

using namespace spgemm;

constexpr int kThreads = 256;
constexpr std::uint32_t kTile = 2048;  // products that a thread block expands

/// Writes the products in the order of A's nonzeros. A key is the row in the slice and the column.
template <class Key>
__global__ void __launch_bounds__(kThreads)
    expand(CsrView a, CsrView b, Slice slice, int col_bits,
           const std::int64_t* __restrict__ before_rows,
           const std::uint32_t* __restrict__ before_nonzeros, Key* __restrict__ keys,
           float* __restrict__ values) {
  __shared__ std::int64_t ends[2];  // the rows of the first and of the last product
  const std::uint32_t begin = blockIdx.x * kTile;
  const std::uint32_t end = min(begin + kTile, static_cast<std::uint32_t>(slice.products));
  if (threadIdx.x < 2)
    ends[threadIdx.x] = last_at_most(before_rows, slice.first_row, slice.first_row + slice.rows,
                                     slice.first_product + (threadIdx.x == 0 ? begin : end - 1));
  __syncthreads();
  for (std::uint32_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const std::int64_t row =
        last_at_most(before_rows, ends[0], ends[1] + 1, slice.first_product + i);
    const std::int64_t first = a.row_offsets[row] - slice.first_nonzero;
    const std::int64_t last = a.row_offsets[row + 1] - slice.first_nonzero;
    const std::int64_t nonzero = last_at_most(before_nonzeros, first, last, i);
    const std::int64_t k = slice.first_nonzero + nonzero;
    const std::int64_t j = b.row_offsets[a.col_indices[k]] + (i - before_nonzeros[nonzero]);
    keys[i] =
        static_cast<Key>(row - slice.first_row) << col_bits | static_cast<Key>(b.col_indices[j]);
    values[i] = __fmul_rn(a.values[k], b.values[j]);
  }
}

/// Finds where the cells of each row begin: at the run that begins with the row's products, since
/// sorting keeps these together.
__global__ void write_offsets(Slice slice, const std::int64_t* __restrict__ before_rows,
                              const std::uint32_t* __restrict__ runs, std::uint32_t nnz,
                              std::int64_t* __restrict__ offsets) {
  const std::int64_t row = grid_thread();
  if (row > slice.rows) return;
  const std::int64_t first = before_rows[slice.first_row + row] - slice.first_product;
  offsets[row] = first_at_least(runs, nnz, static_cast<std::uint32_t>(first));
}

/// Adds up the products of each cell from left to right, one cell for each thread.
template <class Key>
__global__ void compress(const Key* __restrict__ keys, const float* __restrict__ products,
                         std::uint32_t count, const std::uint32_t* __restrict__ runs,
                         std::uint32_t nnz, int col_bits, float alpha,
                         std::int32_t* __restrict__ cols, float* __restrict__ values) {
  const std::int64_t cell = grid_thread();
  if (cell >= nnz) return;
  const std::uint32_t begin = runs[cell], end = cell + 1 < nnz ? runs[cell + 1] : count;
  float sum = products[begin];
  for (std::uint32_t i = begin + 1; i < end; ++i) sum = __fadd_rn(sum, products[i]);
  cols[cell] = static_cast<std::int32_t>(keys[begin] & ((Key{1} << col_bits) - 1));
  values[cell] = scaled(alpha, sum);
}

class Esc {
 public:
  static SliceCells multiply_slice(const SliceJob& job) {
    const bool narrow = index_bits(job.slice.rows) + index_bits(job.b.cols) <= 32;
    return (narrow ? multiply_with<std::uint32_t> : multiply_with<std::uint64_t>)(job);
  }

 private:
  /// The memory of a slice, its cells of C excepted, in one block.
  template <class Key>
  struct Workspace {
    explicit Workspace(const SliceJob& job)
        : cells(block, job.slice.products, index_bits(job.slice.rows) + index_bits(job.b.cols)) {
      const std::int64_t nonzeros = job.slice.nonzeros;
      const auto products = products_of_nonzeros(job.a, job.b, job.slice);
      const std::int64_t sum_bytes = running_sum_bytes<std::uint32_t>(products, nonzeros);
      const auto at_runs = block.place<std::int64_t>(1);
      const std::int64_t shared = block.next();
      const auto at_before = block.place<std::uint32_t>(nonzeros);
      const auto at_sums = block.place<std::byte>(sum_bytes);
      block.place_over(shared);
      cells.place_scratch(block);
      block.take(job.run, job.room);
      cells.settle(block);
      runs = block.data<std::int64_t>(at_runs);
      before = block.data<std::uint32_t>(at_before);
      running_sum(block.array<std::byte>(at_sums, sum_bytes), products, before, nonzeros,
                  job.run.stream());
    }

    RunBlock block;
    SortedCells<Key> cells;
    std::uint32_t* before;  // [slice.nonzeros] products; the sort's scratch memory overlaps it
    std::int64_t* runs;     // [1] the number of runs
  };

  template <class Key>
  static SliceCells multiply_with(const SliceJob& job) {
    const Slice& slice = job.slice;
    const cudaStream_t stream = job.run.stream();
    const int col_bits = index_bits(job.b.cols);
    job.run.stage("expand");
    Workspace<Key> work(job);
    SortedCells<Key>& cells = work.cells;
    expand<<<grid_for(slice.products, kTile), kThreads, 0, stream>>>(
        job.a, job.b, slice, col_bits, job.before_rows, work.before, cells.keys(), cells.values());
    cuda_check(cudaGetLastError(), "expanding products");
    job.run.stage("sort");
    cells.sort(stream);
    job.run.stage("compress");
    cells.find_runs(work.runs, stream);
    job.numbers.runs.request(work.runs, stream);
    const auto nnz = static_cast<std::uint32_t>(job.numbers.runs.wait(stream));
    write_offsets<<<grid_for(slice.rows + 1, kThreads), kThreads, 0, stream>>>(
        slice, job.before_rows, cells.runs(), nnz, job.offsets);
    cuda_check(cudaGetLastError(), "finding C's offsets");
    SliceCells c = job.cells(nnz);
    compress<<<grid_for(nnz, kThreads), kThreads, 0, stream>>>(
        cells.keys(), cells.values(), static_cast<std::uint32_t>(slice.products), cells.runs(), nnz,
        col_bits, job.alpha, c.col_indices.data(), c.values.data());
    cuda_check(cudaGetLastError(), "adding up products");
    return c;
  }
};

const Register<GpuSpgemm> entry{{
    .name = "esc_spgemm",
    .summary = "device half of esc_spgemm",
    .make =
        [](const Params& params) {
          return std::make_unique<SlicedSpgemm<Esc>>(params.integer("slice"));
        },
}};

}  // namespace
}  // namespace tessera
