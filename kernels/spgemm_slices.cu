// Slices of C become C: see kernels/spgemm_slices.cuh.

#include "kernels/spgemm_slices.cuh"

namespace tessera::spgemm {
namespace {

__global__ void write_sums(const std::int64_t* __restrict__ from, std::int64_t base,
                           std::int64_t* __restrict__ to, std::int64_t count) {
  const std::int64_t i = grid_thread();
  if (i < count) to[i] = from[i] + base;
}

template <class T>
void append(ProductRun& run, const RunArray<T>& from, T* to) {
  cuda_check(cudaMemcpyAsync(to, from.data(), sizeof(T) * static_cast<std::size_t>(from.size()),
                             cudaMemcpyDeviceToDevice, run.stream()),
             "joining slices");
}

}  // namespace

void add_base(ProductRun& run, const std::int64_t* from, std::int64_t base, std::int64_t* to,
              std::int64_t count) {
  write_sums<<<grid_for(count, 256), 256, 0, run.stream()>>>(from, base, to, count);
  cuda_check(cudaGetLastError(), "placing a slice");
}

void join(ProductRun& run, std::vector<SliceCells> slices, SparseResult& c) {
  if (slices.size() == 1) {
    c.col_indices = std::move(slices[0].col_indices);
    c.values = std::move(slices[0].values);
    return;
  }
  std::int64_t nnz = 0;
  for (const SliceCells& slice : slices) nnz += slice.nnz();
  c.col_indices = RunArray<std::int32_t>(run, nnz);
  c.values = RunArray<float>(run, nnz);
  std::int64_t at = 0;
  for (const SliceCells& slice : slices) {
    append(run, slice.col_indices, c.col_indices.data() + at);
    append(run, slice.values, c.values.data() + at);
    at += slice.nnz();
  }
}

}  // namespace tessera::spgemm
