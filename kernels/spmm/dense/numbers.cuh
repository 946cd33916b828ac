// The numbers that dense_spmm multiplies: FP32 in memory and TF32 in the MMAs, or 16 bits in both.
//
// The left operand of an MMA is B, transposed: 16 columns of a warp by the depth of a step, in
// registers. B lies in shared memory as lines of 128 bytes of its rows, in which the 16-byte
// pieces of row k are exchanged by an exclusive or with k mod 8 (the 128-byte swizzle of tensor
// maps). The lanes of a warp read different banks so.
#pragma once

#include <type_traits>

#include "kernels/spmm/dense/schedule.hpp"
#include "kernels/tensor_core/half_operands.cuh"
#include "kernels/tensor_core/mma.cuh"

namespace tessera::dense_spmm {

/// Columns of C that a warp multiplies, as the rows of a left operand.
constexpr int kWarpCols = 16;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/// D += left right by m64n64: four registers a lane of the left operand, the right one in shared
/// memory. Asynchronous: see close_mmas().
#define TESSERA_WGMMA_N64(name, instruction, transposition)                                       \
  __device__ inline void name(float(&d)[32], const std::uint32_t(&a)[4], std::uint64_t right) {   \
    asm volatile(                                                                                 \
        "wgmma.mma_async.sync.aligned." instruction                                               \
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "      \
        "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                 \
        "{%32, %33, %34, %35}, %36, 1, 1, 1" transposition ";"                                    \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),     \
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), \
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),           \
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),           \
          "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])            \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));                                \
  }
TESSERA_WGMMA_N64(wgmma_m64n64k8_tf32, "m64n64k8.f32.tf32.tf32", "")
TESSERA_WGMMA_N64(wgmma_m64n64k16_fp16, "m64n64k16.f32.f16.f16", ", 0")
TESSERA_WGMMA_N64(wgmma_m64n64k16_bf16, "m64n64k16.f32.bf16.bf16", ", 0")
#undef TESSERA_WGMMA_N64

/// The descriptor of a right operand of DenseTiles: 128 bytes from a core matrix to the next along
/// the depth, 256 bytes along the rows of A.
__device__ inline std::uint64_t right_descriptor(const void* at) {
  const auto address = static_cast<std::uint64_t>(__cvta_generic_to_shared(at));
  return (address & 0x3ffff) >> 4 | std::uint64_t{128 >> 4} << 16 | std::uint64_t{256 >> 4} << 32;
}
#endif

struct Fp32Numbers {
  using Element = float;
  static constexpr int kElementBytes = 4;

  /// The column of row g (`upper` 0) or g + 8 (1) of the warp's left operand, among the group's 64.
  /// The lanes of half a warp read two pieces of four rows, which the swizzle keeps apart.
  __device__ static int column(int warp, int g, int upper) {
    return 32 * (warp / 2) + 4 * piece(warp, g) + 2 * (g % 2) + upper;
  }

  /// The left operand of a step, of the lane's part of rows t and t + 4 of it.
  __device__ static void load(const unsigned char* lines, int line_bytes, int warp, int lane,
                              int step, std::uint32_t (&left)[4]) {
    const int g = lane / 4, t = lane % 4;
    const unsigned char* const line = lines + warp / 2 * line_bytes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int in_step = t + 4 * half;
      const float2 two = *reinterpret_cast<const float2*>(
          line + (8 * step + in_step) * kLineBytes + 16 * (piece(warp, g) ^ in_step) + 8 * (g % 2));
      left[2 * half] = round_to_tf32_even(two.x);
      left[2 * half + 1] = round_to_tf32_even(two.y);
    }
  }

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __device__ static void multiply(float (&sums)[32], const std::uint32_t (&left)[4],
                                  std::uint64_t right) {
    wgmma_m64n64k8_tf32(sums, left, right);
  }
#endif

 private:
  __device__ static int piece(int warp, int g) { return 2 * (warp % 2) + g / 4 + 4 * (g / 2 % 2); }
};

template <class Packed>
struct HalfNumbers {
  using Element = Packed;
  static constexpr int kElementBytes = 2;

  __device__ static int column(int warp, int g, int upper) {
    return kWarpCols * warp + 8 * upper + g;
  }

  /// Four matrices of 8 x 8 elements, transposed: columns 0 to 7 and 8 to 15 of rows 0 to 7 of the
  /// step, and of rows 8 to 15.
  __device__ static void load(const unsigned char* lines, int, int warp, int lane, int step,
                              std::uint32_t (&left)[4]) {
    const int row = lane % 8 + lane / 16 * 8, piece = 2 * warp + lane / 8 % 2;
    const auto at = static_cast<std::uint32_t>(
        __cvta_generic_to_shared(lines + (16 * step + row) * kLineBytes + 16 * (piece ^ row % 8)));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(left[0]), "=r"(left[1]), "=r"(left[2]), "=r"(left[3])
                 : "r"(at)
                 : "memory");
  }

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __device__ static void multiply(float (&sums)[32], const std::uint32_t (&left)[4],
                                  std::uint64_t right) {
    if constexpr (std::is_same_v<Packed, PackedFp16>)
      wgmma_m64n64k16_fp16(sums, left, right);
    else
      wgmma_m64n64k16_bf16(sums, left, right);
  }
#endif
};

}  // namespace tessera::dense_spmm
