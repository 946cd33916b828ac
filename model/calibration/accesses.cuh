// Single memory instructions, for micro-benchmarks that depend on the exact instruction. They are
// volatile: the compiler neither removes nor merges them and keeps their order.
#pragma once

#include <cstdint>

namespace tessera {

__device__ inline std::uint32_t load_l1(const std::uint32_t* address) {
  std::uint32_t word;
  asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(word) : "l"(address));
  return word;
}
__device__ inline uint4 load_l1_wide(const std::uint32_t* address) {
  uint4 words;
  asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(address));
  return words;
}
/// A load that bypasses L1.
__device__ inline uint4 load_l2_wide(const std::uint32_t* address) {
  uint4 words;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(address));
  return words;
}
__device__ inline void store_wide(std::uint32_t* address, uint4 words) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(words.x),
               "r"(words.y), "r"(words.z), "r"(words.w)
               : "memory");
}

/// The address of an object in shared memory in the form that shared-memory instructions take.
__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ inline std::uint32_t load_shared(std::uint32_t address) {
  std::uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}
__device__ inline uint4 load_shared_wide(std::uint32_t address) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address));
  return words;
}

__device__ inline std::uint32_t sum_of(uint4 words) {
  return words.x + words.y + words.z + words.w;
}

}  // namespace tessera
