#include "kernels/spmm/distributed/sum_copies.hpp"

#include <algorithm>

#include "formats/base/device_memory.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/scaling.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 4096;

__global__ void add(float* __restrict__ c, const float* __restrict__ others, std::int64_t elements,
                    int own, int copies) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements;
       i += step) {
    float sum = 0;
    for (int copy = 0, other = 0; copy < copies; ++copy) {
      const float next = copy == own ? c[i] : others[elements * other++ + i];
      sum = copy == 0 ? next : scaled({1, 1}, next, &sum);
    }
    c[i] = sum;
  }
}

}  // namespace

void sum_copies(float* c, const float* others, std::int64_t elements, int own, int copies,
                cudaStream_t stream) {
  if (elements == 0 || copies == 1) return;
  const std::int64_t blocks = std::min((elements + kThreads - 1) / kThreads, kMostBlocks);
  add<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(c, others, elements, own, copies);
  cuda_check(cudaGetLastError(), "launching sum_copies");
}

void load_sum_copies() { load_now(add); }

}  // namespace tessera
