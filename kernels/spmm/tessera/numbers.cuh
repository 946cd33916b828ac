// The numbers that a warp of tessera_spmm multiplies: FP32 in memory and TF32 in the MMAs, or 16
// bits in both. A lane reads B in pieces of 16 bytes, whose columns belong to different MMAs, so
// that the type decides how many MMAs a piece feeds, and nothing else of the kernel.
#pragma once

#include "kernels/spmm/tessera/tessera_spmm.hpp"
#include "kernels/tensor_core/half_operands.cuh"
#include "kernels/tensor_core/tf32_operands.cuh"

namespace tessera::tessera_spmm {

/// The sums of two MMAs, d[0] to d[3] each.
using SumsOfPair = float[2][4];

template <Tf32Precision kPrecision>
struct Fp32Numbers {
  using Element = float;
  using Operand = Tf32Operand<kPrecision, 4>;
  static constexpr int kPieceCols = 4;  // columns of 16 bytes of B
  static constexpr bool kScales = false;

  /// Of the elements (g, t), (g + 8, t), (g, t + 4) and (g + 8, t + 4) of a TC block.
  __device__ static Operand operand(const float (&elements)[4]) {
    Operand operand;
    for (int i = 0; i < 4; ++i) operand.set(i, elements[i]);
    return operand;
  }

  /// Multiplies by pieces of the rows of B of condensed columns t and t + 4: MMA j takes their
  /// columns j.
  __device__ static void multiply(const Operand& a, const uint4& low, const uint4& high,
                                  SumsOfPair* sums) {
    const std::uint32_t each[2][4] = {{low.x, low.y, low.z, low.w},
                                      {high.x, high.y, high.z, high.w}};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      Tf32Operand<kPrecision, 2> columns;
      for (int half = 0; half < 2; ++half) columns.set(half, __uint_as_float(each[half][j]));
      mma_m16n8<kPrecision, 8>(sums[j / 2][j % 2], a, columns);
    }
  }
};

/// `Packed` is PackedFp16 or PackedBf16. The order of the condensed columns within an MMA is free:
/// a register holds columns t and t + 4.
template <class Packed>
struct HalfNumbers {
  using Element = Packed;
  static constexpr int kPieceCols = 8;
  static constexpr bool kScales = false;
  struct Operand {
    std::uint32_t rows[2];
  };

  __device__ static Operand operand(const float (&elements)[4]) {
    return {{Packed::pair(elements[0], elements[2]), Packed::pair(elements[1], elements[3])}};
  }

  __device__ static void multiply(const Operand& a, const uint4& low, const uint4& high,
                                  SumsOfPair* sums) {
    const std::uint32_t each[2][4] = {{low.x, low.y, low.z, low.w},
                                      {high.x, high.y, high.z, high.w}};
    constexpr unsigned kLowHalves = 0x5410, kHighHalves = 0x7632;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const std::uint32_t columns[1] = {
          __byte_perm(each[0][j / 2], each[1][j / 2], j % 2 == 0 ? kLowHalves : kHighHalves)};
      Packed::mma_k8(sums[j / 2][j % 2], a.rows, columns);
    }
  }
};

/// Whose sums are multiplied by powers of two (kernels/narrowing.hpp). The same in every kernel
/// would make products of 16 bits a tenth slower.
struct ScaledFp16Numbers : HalfNumbers<PackedFp16> {
  static constexpr bool kScales = true;
};

}  // namespace tessera::tessera_spmm
