// Asynchronous copies from global to shared memory: cp.async of compute capability 8.0 and newer.
#pragma once

#include <cstdint>

#include "kernels/device/copy_cache.hpp"

namespace tessera {

__device__ inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

/// Copies `kBytes` bytes to the shared memory at `to`, or writes zeros there where `real` is false;
/// `from` is not read then. Only copies of 16 bytes can bypass the L1.
template <int kBytes, CopyCache kCache = CopyCache::kL2>
__device__ void copy_async(std::uint32_t to, const void* from, bool real) {
  const int bytes = real ? kBytes : 0;
  if constexpr (kBytes == 16 && kCache == CopyCache::kL2)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(bytes)
                 : "memory");
}
/// Copies a word through the L1, which keeps its sector.
__device__ inline void copy_word_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
template <int kBytes>
__device__ void copy_async(void* to, const void* from, bool real) {
  copy_async<kBytes>(shared_address(to), from, real);
}

/// Ends a group of this thread's copies.
__device__ inline void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most kGroups of this thread's groups are in flight.
template <int kGroups>
__device__ void wait_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

/// Waits until the oldest of `stages` - 1 groups has arrived; `stages` is 2 to 4.
__device__ inline void wait_for_oldest(int stages) {
  if (stages == 2)
    wait_groups<0>();
  else if (stages == 3)
    wait_groups<1>();
  else
    wait_groups<2>();
}

}  // namespace tessera
