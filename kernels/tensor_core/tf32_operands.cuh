// FP32 operands of m16n8k8 in the TF32 precisions of kernels/tensor_core/precision.hpp: rounded in
// one of two ways, raw, or split into two parts that take three MMAs.
//
// Every kernel with FP32 operands can multiply through it. A's values are the left operand of the
// instruction, or the right one where operands are swapped; this only decides the order of the
// small products, which is defined here.
#pragma once

#include <cmath>

#include "kernels/tensor_core/mma.cuh"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {

/// A fragment of kRegisters FP32 values.
template <Tf32Precision kPrecision, int kRegisters>
struct Tf32Operand {
  static constexpr int kParts = kPrecision == Tf32Precision::kSplit ? 2 : 1;
  std::uint32_t parts[kParts][kRegisters];

  __device__ void set(int index, float value) {
    if constexpr (kPrecision == Tf32Precision::kRaw) {
      parts[0][index] = __float_as_uint(value);
    } else if constexpr (kPrecision == Tf32Precision::kEven) {
      parts[0][index] = round_to_tf32_even(value);
    } else if constexpr (kPrecision == Tf32Precision::kRounded) {
      parts[0][index] = round_operand_to_tf32(value);
    } else {
      parts[0][index] = round_to_tf32(value);
      const float large = __uint_as_float(parts[0][index]);
      // The remainder of a NaN or an infinity is zero.
      parts[1][index] = isfinite(large) ? round_operand_to_tf32(value - large) : 0u;
    }
  }
};

/// d += left * right by m16n8k4 or m16n8k8; A's values are the left operand.
template <Tf32Precision kPrecision, int kDepth>
__device__ void mma_m16n8(float (&d)[4], const Tf32Operand<kPrecision, kDepth / 2>& a,
                          const Tf32Operand<kPrecision, kDepth / 4>& b) {
  const auto add = [&](int a_part, int b_part) {
    if constexpr (kDepth == 4)
      mma_m16n8k4_tf32(d, a.parts[a_part], b.parts[b_part]);
    else
      mma_m16n8k8_tf32(d, a.parts[a_part], b.parts[b_part]);
  };
  // The small products come first: alignment to a large sum would drop them.
  if constexpr (kPrecision == Tf32Precision::kSplit) {
    add(1, 0);
    add(0, 1);
  }
  add(0, 0);
}

/// d += left * right; A's values are the right operand (swapped operands, C^T = B^T A^T).
template <Tf32Precision kPrecision>
__device__ void mma_m16n8k8_swapped(float (&d)[4], const Tf32Operand<kPrecision, 4>& b,
                                    const Tf32Operand<kPrecision, 2>& a) {
  if constexpr (kPrecision == Tf32Precision::kSplit) {
    mma_m16n8k8_tf32(d, b.parts[0], a.parts[1]);
    mma_m16n8k8_tf32(d, b.parts[1], a.parts[0]);
  }
  mma_m16n8k8_tf32(d, b.parts[0], a.parts[0]);
}

}  // namespace tessera
