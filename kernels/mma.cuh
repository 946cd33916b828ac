// The MMA instructions themselves. kernels/tensor_core.hpp says what they compute.
#pragma once

#include <cstdint>

#include "kernels/mma.hpp"

namespace tessera {

/// cvt.rna.tf32.f32: to nearest, ties away from zero.
__device__ inline std::uint32_t round_to_tf32(float value) {
  std::uint32_t tf32;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(value));
  return tf32;
}

/// D = A B + D for the whole warp; lane maps in MmaM16N8K8.
__device__ inline void mma_m16n8k8_tf32(float (&d)[4], const std::uint32_t (&a)[4],
                                        const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace tessera
