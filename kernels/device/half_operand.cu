#include "kernels/device/half_operand.hpp"

#include <cuda_fp16.h>

#include <algorithm>

#include "kernels/gpu_spmm.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 4096;  // beyond, a thread converts several elements

__global__ void round_all(const float* from, std::int64_t count, __half* to) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    to[i] = __float2half_rn(from[i]);
}

}  // namespace

void convert_to_half(const float* from, std::int64_t count, std::uint16_t* to,
                     cudaStream_t stream) {
  if (count == 0) return;
  const std::int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMaxBlocks);
  round_all<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(from, count,
                                                                    reinterpret_cast<__half*>(to));
  cuda_check(cudaGetLastError(), "launching the conversion of B");
}

void load_convert_to_half() { load_now(round_all); }

}  // namespace tessera
