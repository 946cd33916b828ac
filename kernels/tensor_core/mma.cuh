// The MMA instructions, D = A B + D. kernels/tensor_core/tensor_core.hpp defines their arithmetic,
// kernels/tensor_core/mma.hpp the maps of their fragments.
#pragma once

#include <cstdint>

#include "kernels/tensor_core/mma.hpp"

namespace tessera {

/// cvt.rna.tf32.f32: to nearest, ties away from zero.
__device__ inline std::uint32_t round_to_tf32(float value) {
  std::uint32_t tf32;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(value));
  return tf32;
}

/// cvt.rn.tf32.f32: to nearest even, one instruction from compute capability 9.0 on.
__device__ inline std::uint32_t round_to_tf32_even(float value) {
#if __CUDA_ARCH__ >= 900
  std::uint32_t tf32;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(value));
  return tf32;
#else
  const std::uint32_t bits = __float_as_uint(value);
  if (isnan(value)) return 0x7fffe000u;
  return isfinite(value) ? bits + 0xfff + (bits >> 13 & 1) & 0xffffe000u : bits;
#endif
}

/// The rounding of round_to_tf32() for an operand of an MMA, which ignores the 13 bits that TF32
/// lacks: they keep the bits of the sum.
__device__ inline std::uint32_t round_operand_to_tf32(float value) {
  constexpr std::uint32_t kHalf = 1u << 12;  // half a unit of the last kept bit
  const std::uint32_t bits = __float_as_uint(value);
  return fabsf(value) < __int_as_float(0x7f800000) ? bits + kHalf : bits;
}

// One function per shape and type; they differ only in the instruction's name.
#define TESSERA_MMA_A2_B1(name, instruction)                            \
  __device__ inline void name(float(&d)[4], const std::uint32_t(&a)[2], \
                              const std::uint32_t(&b)[1]) {             \
    asm volatile("mma.sync.aligned." instruction                        \
                 " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])       \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));                    \
  }
#define TESSERA_MMA_A4_B2(name, instruction)                                          \
  __device__ inline void name(float(&d)[4], const std::uint32_t(&a)[4],               \
                              const std::uint32_t(&b)[2]) {                           \
    asm volatile("mma.sync.aligned." instruction                                      \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"   \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
  }
TESSERA_MMA_A2_B1(mma_m16n8k4_tf32, "m16n8k4.row.col.f32.tf32.tf32.f32")
TESSERA_MMA_A2_B1(mma_m16n8k8_fp16, "m16n8k8.row.col.f32.f16.f16.f32")
TESSERA_MMA_A2_B1(mma_m16n8k8_bf16, "m16n8k8.row.col.f32.bf16.bf16.f32")
TESSERA_MMA_A4_B2(mma_m16n8k8_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
TESSERA_MMA_A4_B2(mma_m16n8k16_fp16, "m16n8k16.row.col.f32.f16.f16.f32")
TESSERA_MMA_A4_B2(mma_m16n8k16_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
#undef TESSERA_MMA_A2_B1
#undef TESSERA_MMA_A4_B2

/// FP16 accumulators, two to a register.
__device__ inline void mma_m16n8k8_fp16_fp16(std::uint32_t (&d)[2], const std::uint32_t (&a)[2],
                                             const std::uint32_t (&b)[1]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

__device__ inline void mma_m16n8k16_fp16_fp16(std::uint32_t (&d)[2], const std::uint32_t (&a)[4],
                                              const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
      "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// INT8, exact sums in INT32 that wrap around.
__device__ inline void mma_m16n8k32_int8(int (&d)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// wgmma belongs to compute capability 9.0 alone, and only its own machine code (sm_90a) has it.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// The matrix descriptor of B in the layout of Wgmma (PTX ISA, "Matrix Descriptor Format"): no
/// swizzle, 128 bytes from one core matrix to the next along the depth, a single one along N.
__device__ inline std::uint64_t wgmma_descriptor(const void* b) {
  const auto address = static_cast<std::uint64_t>(__cvta_generic_to_shared(b));
  constexpr std::uint64_t kStride = 128 >> 4;
  return (address & 0x3ffff) >> 4 | kStride << 16 | kStride << 32;
}

/// A whole asynchronous MMA, from the fence that its registers need to the wait for its result, in
/// one statement, since nothing may touch the registers in between.
#define TESSERA_WGMMA(name, instruction, transposition)                                    \
  __device__ inline void name(float(&d)[4], const std::uint32_t(&a)[4], std::uint64_t b) { \
    asm volatile(                                                                          \
        "{\n.reg .pred accumulate;\n"                                                      \
        "setp.eq.u32 accumulate, 0, 0;\n"                                                  \
        "wgmma.fence.sync.aligned;\n"                                                      \
        "wgmma.mma_async.sync.aligned." instruction                                        \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, accumulate, 1, 1" transposition          \
        ";\n"                                                                              \
        "wgmma.commit_group.sync.aligned;\n"                                               \
        "wgmma.wait_group.sync.aligned 0;\n}"                                              \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                   \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                               \
        : "memory");                                                                       \
  }
TESSERA_WGMMA(wgmma_m64n8k8_tf32, "m64n8k8.f32.tf32.tf32", "")
TESSERA_WGMMA(wgmma_m64n8k16_fp16, "m64n8k16.f32.f16.f16", ", 0")
TESSERA_WGMMA(wgmma_m64n8k16_bf16, "m64n8k16.f32.bf16.bf16", ", 0")
#undef TESSERA_WGMMA

/// Makes this thread's writes to shared memory visible to wgmma; a barrier has to follow.
__device__ inline void fence_for_wgmma() { asm volatile("fence.proxy.async;" ::: "memory"); }

#endif

}  // namespace tessera
