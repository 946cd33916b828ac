// Joins slices of C. See kernels/spgemm/shared/slices.cuh.

#include "kernels/spgemm/shared/slices.cuh"

namespace tessera::spgemm {
namespace {

__global__ void add_to_sums(std::int64_t base, std::int64_t* sums, std::int64_t count) {
  const std::int64_t i = grid_thread();
  if (i < count) sums[i] += base;
}

template <class T>
void append(ProductRun& run, const RunArray<T>& from, T* to) {
  cuda_check(cudaMemcpyAsync(to, from.data(), sizeof(T) * static_cast<std::size_t>(from.size()),
                             cudaMemcpyDeviceToDevice, run.stream()),
             "joining slices");
}

}  // namespace

void add_base(ProductRun& run, std::int64_t base, std::int64_t* sums, std::int64_t count) {
  add_to_sums<<<grid_for(count, 256), 256, 0, run.stream()>>>(base, sums, count);
  cuda_check(cudaGetLastError(), "placing a slice");
}

void join(ProductRun& run, const std::vector<SliceCells>& slices, const SparseResult& c) {
  std::int64_t at = 0;
  for (const SliceCells& slice : slices) {
    append(run, slice.col_indices, c.col_indices.data() + at);
    append(run, slice.values, c.values.data() + at);
    at += slice.nnz();
  }
}

}  // namespace tessera::spgemm
