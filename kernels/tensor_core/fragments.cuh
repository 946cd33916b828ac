// Moving values to and from the registers of a fragment without changing them, by the maps of
// kernels/tensor_core/mma.hpp: 16-bit values share a register, the even one in its low half.
#pragma once

#include <cstdint>

#include "kernels/tensor_core/number_format.hpp"

namespace tessera {

template <MmaType kType>
__device__ std::uint32_t operand_bits(float value) {
  if constexpr (kType == MmaType::kTf32) return __float_as_uint(value);
  if constexpr (kType == MmaType::kBf16) return __float_as_uint(value) >> 16;
  return fp16_bits(value);
}

constexpr int registers_for(MmaType type, int values) {
  return type == MmaType::kTf32 ? values : values / 2;
}

/// Puts a value of an operand into its register; call it with ascending values.
template <MmaType kType, int kRegisters>
__device__ void put_operand(std::uint32_t (&registers)[kRegisters], int value, float operand) {
  const std::uint32_t bits = operand_bits<kType>(operand);
  if (kType == MmaType::kTf32)
    registers[value] = bits;
  else if (value % 2 == 0)
    registers[value / 2] = bits;
  else
    registers[value / 2] |= bits << 16;
}

/// The thread's share of A [kM x kK], row-major.
template <class Map, MmaType kType>
struct FragmentA {
  std::uint32_t registers[registers_for(kType, Map::kValuesA)];

  __device__ FragmentA(const float* a, int thread) {
    for (int v = 0; v < Map::kValuesA; ++v)
      put_operand<kType>(registers, v, a[Map::a_row(thread, v) * Map::kK + Map::a_col(thread, v)]);
  }
};

/// The thread's share of B [kK x kN], row-major.
template <class Map, MmaType kType>
struct FragmentB {
  std::uint32_t registers[registers_for(kType, Map::kValuesB)];

  __device__ FragmentB(const float* b, int thread) {
    for (int v = 0; v < Map::kValuesB; ++v)
      put_operand<kType>(registers, v, b[Map::b_row(thread, v) * Map::kN + Map::b_col(thread, v)]);
  }
};

/// The thread's share of C or D [kM x kN], row-major, accumulated in FP32.
template <class Map, MmaType kType>
struct FragmentC {
  float registers[Map::kValuesC];

  __device__ FragmentC(const float* c, int thread) {
    for (int v = 0; v < Map::kValuesC; ++v)
      registers[v] = c[Map::c_row(thread, v) * Map::kN + Map::c_col(thread, v)];
  }
  __device__ void store(float* d, int thread) const {
    for (int v = 0; v < Map::kValuesC; ++v)
      d[Map::c_row(thread, v) * Map::kN + Map::c_col(thread, v)] = registers[v];
  }
};

/// The thread's share of C or D [kM x kN], row-major, accumulated in FP16.
template <class Map>
struct FragmentC<Map, MmaType::kFp16Fp16> {
  std::uint32_t registers[Map::kValuesC / 2];

  __device__ FragmentC(const float* c, int thread) {
    for (int v = 0; v < Map::kValuesC; ++v)
      put_operand<MmaType::kFp16Fp16>(registers, v,
                                      c[Map::c_row(thread, v) * Map::kN + Map::c_col(thread, v)]);
  }
  __device__ void store(float* d, int thread) const {
    for (int v = 0; v < Map::kValuesC; ++v) {
      const auto bits = static_cast<std::uint16_t>(registers[v / 2] >> 16 * (v % 2));
      d[Map::c_row(thread, v) * Map::kN + Map::c_col(thread, v)] = fp16_value(bits);
    }
  }
};

}  // namespace tessera
