// Writing eight sums of a row of C side by side, in the type in which C lies in memory, with alpha
// and beta applied.
#pragma once

#include <cstdint>

#include "kernels/device/store_16_bytes.cuh"
#include "kernels/tensor_core/half_operands.cuh"

namespace tessera {

/// Element `index` of C of 16 bits, rounded once, after alpha and beta.
template <class Packed>
__device__ void store_16_bits(std::uint16_t* to, float sum, const Scaling& scaling) {
  const float old = scaling.beta == 0 ? 0.0f : Packed::low(*to);
  *to = static_cast<std::uint16_t>(Packed::pair(scaled(scaling, sum, &old), 0.0f));
}

/// Stores the first min(cols, 8) sums of C of 16 bits, none when `cols` is not positive. With
/// `kAligned`, `to` is at a multiple of 16 bytes and `cols` is at least eight or not positive.
template <class Packed, bool kAligned>
__device__ void store_8_halves(std::uint16_t* to, const float (&sums)[8], int cols,
                               const Scaling& scaling) {
  if constexpr (!kAligned) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < cols) store_16_bits<Packed>(to + i, sums[i], scaling);
  } else {
    if (cols <= 0) return;
    std::uint32_t words[4] = {};
    if (scaling.beta != 0)
      asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "l"(to)
                   : "memory");
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = Packed::low(words[i]), high = Packed::high(words[i]);
      words[i] =
          Packed::pair(scaled(scaling, sums[2 * i], &low), scaled(scaling, sums[2 * i + 1], &high));
    }
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  }
}

/// Stores the first min(cols, 4) sums of C of 16 bits, of which there is one at least. With
/// `kAligned`, `to` is at a multiple of 8 bytes and `cols` is at least four.
template <class Packed, bool kAligned>
__device__ void store_4_halves(std::uint16_t* to, const float4& sums, std::int64_t cols,
                               const Scaling& scaling) {
  const float each[4] = {sums.x, sums.y, sums.z, sums.w};
  if constexpr (!kAligned) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i < cols) store_16_bits<Packed>(to + i, each[i], scaling);
  } else {
    std::uint32_t words[2] = {};
    if (scaling.beta != 0)
      asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
                   : "=r"(words[0]), "=r"(words[1])
                   : "l"(to)
                   : "memory");
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float low = Packed::low(words[i]), high = Packed::high(words[i]);
      words[i] =
          Packed::pair(scaled(scaling, each[2 * i], &low), scaled(scaling, each[2 * i + 1], &high));
    }
    asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(words[0]), "r"(words[1])
                 : "memory");
  }
}

}  // namespace tessera
