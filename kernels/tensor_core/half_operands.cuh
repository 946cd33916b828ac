// Operands of m16n8k16 and m16n8k8 in FP16 and BF16 from FP32 values, rounded to nearest even, the
// values of such operands, and the MMAs.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/tensor_core/mma.cuh"

namespace tessera {

/// Packs two FP32 values into a register of an operand, the first in its low half, and multiplies.
struct PackedFp16 {
  __device__ static std::uint32_t pair(float low, float high) {
    std::uint32_t both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
  }
  __device__ static float low(std::uint32_t both) {
    return __half2float(__ushort_as_half(static_cast<std::uint16_t>(both)));
  }
  __device__ static float high(std::uint32_t both) { return low(both >> 16); }
  __device__ static void mma(float (&d)[4], const std::uint32_t (&a)[4],
                             const std::uint32_t (&b)[2]) {
    mma_m16n8k16_fp16(d, a, b);
  }
  __device__ static void mma_k8(float (&d)[4], const std::uint32_t (&a)[2],
                                const std::uint32_t (&b)[1]) {
    mma_m16n8k8_fp16(d, a, b);
  }
};
struct PackedBf16 {
  __device__ static std::uint32_t pair(float low, float high) {
    std::uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
  }
  __device__ static float low(std::uint32_t both) { return __uint_as_float(both << 16); }
  __device__ static float high(std::uint32_t both) { return __uint_as_float(both & 0xffff0000u); }
  __device__ static void mma(float (&d)[4], const std::uint32_t (&a)[4],
                             const std::uint32_t (&b)[2]) {
    mma_m16n8k16_bf16(d, a, b);
  }
  __device__ static void mma_k8(float (&d)[4], const std::uint32_t (&a)[2],
                                const std::uint32_t (&b)[1]) {
    mma_m16n8k8_bf16(d, a, b);
  }
};

}  // namespace tessera
