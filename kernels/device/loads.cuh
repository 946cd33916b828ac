// Loads from global memory that the compiler neither moves nor splits.
#pragma once

#include <cstdint>

namespace tessera {

/// A load that keeps its place between the MMAs and copies around it. The compiler would otherwise
/// move a load that is ahead of its use to that use.
__device__ inline std::uint32_t load_ahead(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}
__device__ inline std::uint32_t load_ahead(const std::uint8_t* from) {
  std::uint32_t value;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}
__device__ inline std::int32_t load_ahead(const std::int32_t* from) {
  return static_cast<std::int32_t>(load_ahead(reinterpret_cast<const std::uint32_t*>(from)));
}
__device__ inline std::uint64_t load_ahead(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.global.u64 %0, [%1];" : "=l"(value) : "l"(from));
  return value;
}

__device__ inline uint4 load_ahead(const uint4* from) {
  uint4 words;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from));
  return words;
}

/// Loads 16 bytes with one instruction, as store_16_bytes does.
__device__ inline float4 load_16_bytes(const float* from) {
  float4 values;
  asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values.x), "=f"(values.y), "=f"(values.z), "=f"(values.w)
               : "l"(from));
  return values;
}

/// What the L1 does with a line that a load of 16 bytes brings: it keeps it as others, or longer.
enum class L1 { kAsOthers, kKeep };

/// Asks the L1 for the line of an address.
__device__ inline void prefetch_to_l1(const void* from) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(from));
}

/// Loads kWidth floats where `when`, and else nothing, which keeps what `to` holds. The compiler
/// does not move the load.
template <int kWidth, L1 kL1 = L1::kAsOthers>
__device__ void load_if(bool when, const float* from, float* to) {
  const int p = when;
  if constexpr (kWidth == 4 && kL1 == L1::kKeep)
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\n"
        "@p ld.global.nc.L1::evict_last.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
        : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
        : "l"(from), "r"(p));
  else if constexpr (kWidth == 4)
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\n"
        "@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
        : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
        : "l"(from), "r"(p));
  else if constexpr (kWidth == 2)
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %3, 0;\n@p ld.global.nc.v2.f32 {%0, %1}, [%2];\n}"
        : "+f"(to[0]), "+f"(to[1])
        : "l"(from), "r"(p));
  else
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p ld.global.nc.f32 %0, [%1];\n}"
                 : "+f"(to[0])
                 : "l"(from), "r"(p));
}

/// Loads 16 bits into the low half of `to` where `when`, and else nothing.
__device__ inline void load_16_bits_if(bool when, const std::uint16_t* from, float& to) {
  const int p = when;
  std::uint32_t word = __float_as_uint(to);
  asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p ld.global.nc.u16 %0, [%1];\n}"
               : "+r"(word)
               : "l"(from), "r"(p));
  to = __uint_as_float(word);
}

}  // namespace tessera
