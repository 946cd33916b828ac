// The device half of kernels/early_fetch.hpp, from compute capability 9.0 on.
#pragma once

#include "kernels/early_fetch.hpp"

namespace tessera {

/// Fetches the share of thread block `block`, whose threads all call it.
__device__ inline void fetch_early(const EarlyFetch& fetch, std::uint32_t block) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x != 0 || block >= fetch.thread_blocks) return;
#pragma unroll
  for (const EarlyFetch::Array& array : fetch.arrays) {
    const std::uint32_t bytes = array.bytes_of(block);
    if (bytes == 0) continue;
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(
                     static_cast<const char*>(array.at) + std::uint64_t{block} * array.share),
                 "r"(bytes)
                 : "memory");
  }
#endif
}

}  // namespace tessera
