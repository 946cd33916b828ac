// The kernel of flash_sddmm: a warp computes a TC block of S, transposed. See
// kernels/sddmm/flash/flash_sddmm.cpp.
#pragma once

#include "kernels/sddmm/flash/flash_sddmm.hpp"
#include "kernels/sddmm/shared/elements.cuh"

namespace tessera::flash_sddmm {

struct Arguments {
  const Block* blocks;
  std::uint32_t num_blocks;
  const std::int32_t* columns;  // [vectors]
  const std::uint32_t* places;  // [vectors * kWindowRows]
  const float* factors;         // [nnz] in the order of S, or null
  std::int64_t rows;            // of A
  std::uint32_t row_bytes;      // of X and Y
  const char* x;
  const char* y;
  void* s;
  ElementType type;  // of S
};

/// The word of a row that begins with its byte `at`; 0 beyond its end and without a row. Words are
/// aligned where kAligned is true; else two halves are loaded one by one.
template <ElementType kType, bool kAligned>
__device__ std::uint32_t load_word(const char* row, std::uint32_t at, std::uint32_t row_bytes) {
  if (row == nullptr || at >= row_bytes) return 0;
  if constexpr (kAligned || kType == ElementType::kFp32)
    return __ldg(reinterpret_cast<const std::uint32_t*>(row + at));
  const auto* halves = reinterpret_cast<const std::uint16_t*>(row + at);
  const std::uint32_t low = __ldg(halves);
  return at + 2 < row_bytes ? low | std::uint32_t{__ldg(halves + 1)} << 16 : low;
}

/// d += left * right, operands as they are in memory.
template <ElementType kType>
__device__ void multiply(float (&d)[4], const std::uint32_t (&left)[2], std::uint32_t right) {
  if constexpr (kType == ElementType::kFp32) {
    const std::uint32_t a[2] = {round_operand_to_tf32(__uint_as_float(left[0])),
                                round_operand_to_tf32(__uint_as_float(left[1]))};
    const std::uint32_t b[1] = {round_operand_to_tf32(__uint_as_float(right))};
    mma_m16n8k4_tf32(d, a, b);
  } else {
    const std::uint32_t b[1] = {right};
    if constexpr (kType == ElementType::kFp16)
      mma_m16n8k8_fp16(d, left, b);
    else
      mma_m16n8k8_bf16(d, left, b);
  }
}

template <ElementType kType, bool kAligned>
__global__ void __launch_bounds__(32 * kWarps) run(Arguments arguments) {
  const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, t = lane % 4;
  const std::uint32_t index = blockIdx.x * kWarps + threadIdx.x / 32;
  if (index >= arguments.num_blocks) return;
  const uint4 words = __ldg(reinterpret_cast<const uint4*>(arguments.blocks + index));
  const Block block{words.x, words.y, words.z, words.w};

  // The rows of a lane: of Y those of vectors g and g + 8, of X row g of the window.
  const char* y[2] = {};
  for (int half = 0; half < 2; ++half)
    if (const std::uint32_t vector = block.first + g + 8 * half; vector < block.last)
      y[half] = arguments.y +
                std::uint64_t{static_cast<std::uint32_t>(__ldg(arguments.columns + vector))} *
                    arguments.row_bytes;
  const std::int64_t row = std::int64_t{block.window} * kWindowRows + g;
  const char* x = row < arguments.rows ? arguments.x + row * arguments.row_bytes : nullptr;

  float sums[4] = {};
#pragma unroll 1
  for (std::uint32_t begin = 0; begin < arguments.row_bytes; begin += kUnroll * kStepBytes) {
    std::uint32_t left[kUnroll][2], right[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const std::uint32_t at = begin + i * kStepBytes + 4 * t;
      for (int half = 0; half < 2; ++half)
        left[i][half] = load_word<kType, kAligned>(y[half], at, arguments.row_bytes);
      right[i] = load_word<kType, kAligned>(x, at, arguments.row_bytes);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) multiply<kType>(sums, left[i], right[i]);
  }

  // Row g (g + 8) of the result is of vector g (g + 8), its columns 2t and 2t + 1 are rows of A.
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t vector = block.first + g + 8 * (i / 2);
    if (vector >= block.last) continue;
    const std::uint32_t place =
        __ldg(arguments.places + std::uint64_t{vector} * kWindowRows + 2 * t + i % 2);
    if (place == kNoPlace) continue;
    const float value = arguments.factors == nullptr
                            ? sums[i]
                            : __fmul_rn(sums[i], __ldg(arguments.factors + place));
    sddmm::store_element(arguments.s, arguments.type, place, value);
  }
}

}  // namespace tessera::flash_sddmm
