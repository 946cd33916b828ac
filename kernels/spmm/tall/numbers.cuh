// The MMAs of tall_spmm: 64 rows of A by 128 columns of B, both operands in shared memory.
#pragma once

#include "kernels/spmm/tall/schedule.hpp"
#include "kernels/tensor_core/half_operands.cuh"

namespace tessera::tall_spmm {

/// A lane's sums: vector j holds columns 8 j + 2 t and the next one of rows g and g + 8 of its warp
/// for lane 4 g + t.
constexpr int kVectors = kCols / 8;
using Sums = float4[kVectors];

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TESSERA_SUMS_OF(j) "+f"(d[j].x), "+f"(d[j].y), "+f"(d[j].z), "+f"(d[j].w)
/// D = left right, or D += left right where `adds`, by m64n128k16. Asynchronous.
#define TESSERA_WGMMA_N128(name, types)                                                           \
  __device__ inline void name(Sums& d, std::uint64_t left, std::uint64_t right, bool adds) {      \
    asm volatile(                                                                                 \
        "{\n.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\n"                                        \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." types                                      \
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "   \
        "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "   \
        "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, adds, 1, 1, 0, 1;\n}"  \
        : TESSERA_SUMS_OF(0), TESSERA_SUMS_OF(1), TESSERA_SUMS_OF(2), TESSERA_SUMS_OF(3),         \
          TESSERA_SUMS_OF(4), TESSERA_SUMS_OF(5), TESSERA_SUMS_OF(6), TESSERA_SUMS_OF(7),         \
          TESSERA_SUMS_OF(8), TESSERA_SUMS_OF(9), TESSERA_SUMS_OF(10), TESSERA_SUMS_OF(11),       \
          TESSERA_SUMS_OF(12), TESSERA_SUMS_OF(13), TESSERA_SUMS_OF(14), TESSERA_SUMS_OF(15)      \
        : "l"(left), "l"(right), "r"(static_cast<int>(adds)));                                    \
  }
TESSERA_WGMMA_N128(wgmma_m64n128k16_fp16, "f16.f16")
TESSERA_WGMMA_N128(wgmma_m64n128k16_bf16, "bf16.bf16")
#undef TESSERA_WGMMA_N128
#undef TESSERA_SUMS_OF
#endif

/// The matrix descriptors of wgmma (PTX ISA, "Matrix Descriptor Format"), of operands with the
/// 128-byte swizzle. Of an expanded tile: 1024 bytes from eight rows to the next.
__device__ inline std::uint64_t tile_descriptor(std::uint32_t at) {
  return std::uint64_t{1} << 62 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 16 | at >> 4;
}
/// Of rows of B: 1024 bytes from eight rows to the next, and those of a line from 64 columns to the
/// next.
__device__ inline std::uint64_t rows_descriptor(std::uint32_t at) {
  return std::uint64_t{1} << 62 | std::uint64_t{1024 >> 4} << 32 |
         std::uint64_t{kTileCols * kLineBytes >> 4} << 16 | at >> 4;
}
/// From a step to the next, in the units of descriptors.
constexpr int kTileStep = kStepDepth * kElementBytes >> 4;
constexpr int kRowsStep = kStepDepth * kLineBytes >> 4;

/// `Packed` is PackedFp16 or PackedBf16.
template <class Packed>
struct HalfNumbers {
  using Element = Packed;
  static constexpr bool kScales = false;

  __device__ static void multiply(Sums& sums, std::uint64_t tile, std::uint64_t rows, bool adds) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (std::is_same_v<Packed, PackedFp16>)
      wgmma_m64n128k16_fp16(sums, tile, rows, adds);
    else
      wgmma_m64n128k16_bf16(sums, tile, rows, adds);
#endif
  }
};

/// Whose sums are multiplied by powers of two (kernels/narrowing.hpp).
struct ScaledFp16Numbers : HalfNumbers<PackedFp16> {
  static constexpr bool kScales = true;
};

}  // namespace tessera::tall_spmm
