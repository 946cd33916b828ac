// One thread an element: reads of places and writes are whole sectors, and values that a format
// moves little come from sectors that a warp shares.
#include "kernels/device/gather_values.hpp"

#include <algorithm>

#include "kernels/gpu_spmm.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1 << 20;

__global__ void gather(const float* __restrict__ from, const std::uint32_t* __restrict__ places,
                       std::int64_t size, float* __restrict__ to) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < size; i += stride) {
    const std::uint32_t place = places[i];
    to[i] = place == 0 ? 0.0f : from[place - 1];
  }
}

}  // namespace

void gather_values(const float* from, const std::uint32_t* places, std::int64_t size, float* to,
                   cudaStream_t stream) {
  if (size == 0) return;
  const std::int64_t blocks = std::min((size + kThreads - 1) / kThreads, kMostBlocks);
  gather<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(from, places, size, to);
  cuda_check(cudaGetLastError(), "launching the gathering of values");
}

void load_gather_values() { load_now(gather); }

}  // namespace tessera
