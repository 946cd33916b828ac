// Reading rows of X and Y by 16 bytes a lane, whatever their type and alignment, and writing S.
#pragma once

#include <cstdint>

#include "kernels/device/loads.cuh"
#include "kernels/storage.hpp"
#include "kernels/tensor_core/half_operands.cuh"

namespace tessera::sddmm {

/// Loads 16 bytes of a row from `from` on, as four words, where `when` is true. `left` bytes of the
/// row begin there; words (with kAligned: all four) beyond them are not loaded, and keep what they
/// hold. With kAligned `from` is at a multiple of 16 bytes and `left` a multiple of 16, else of the
/// elements' size.
template <int kElementBytes, bool kAligned>
__device__ void load_words(bool when, const char* from, int left, float (&to)[4]) {
  if constexpr (kAligned) {
    load_if<4>(when && left > 0, reinterpret_cast<const float*>(from), to);
  } else if constexpr (kElementBytes == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      load_if<1>(when && left > 4 * i, reinterpret_cast<const float*>(from) + i, to + i);
  } else {
    const auto* elements = reinterpret_cast<const std::uint16_t*>(from);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!when || left <= 4 * i) continue;
      std::uint32_t word = __ldg(elements + 2 * i);
      if (left > 4 * i + 2) word |= std::uint32_t{__ldg(elements + 2 * i + 1)} << 16;
      to[i] = __uint_as_float(word);
    }
  }
}

/// Writes an element of S in its type. The type is the same for all threads.
__device__ inline void store_element(void* s, ElementType type, std::uint64_t at, float value) {
  if (type == ElementType::kFp32) {
    static_cast<float*>(s)[at] = value;
    return;
  }
  const std::uint32_t pair =
      type == ElementType::kFp16 ? PackedFp16::pair(value, 0) : PackedBf16::pair(value, 0);
  static_cast<std::uint16_t*>(s)[at] = static_cast<std::uint16_t>(pair);
}

/// True when every row of X and Y begins at a multiple of 16 bytes. The caller guarantees only the
/// alignment of an element for the two arrays.
inline bool rows_are_aligned(std::int64_t row_bytes, const void* x, const void* y) {
  return row_bytes % 16 == 0 && reinterpret_cast<std::uintptr_t>(x) % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(y) % 16 == 0;
}

}  // namespace tessera::sddmm
