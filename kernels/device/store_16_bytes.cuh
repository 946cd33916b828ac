// A lane's four sums of a row of C on their way into it: stored, or added in the L2 where several
// warps have parts of a sum; alpha and beta applied on the way.
#pragma once

#include <cstdint>

#include "kernels/device/store_operator.hpp"
#include "kernels/gpu_spmm.hpp"

namespace tessera {

/// Whether rows of B and C come in pieces of 16 bytes. Both arrays come from cudaMalloc or a piece
/// of one, whose alignment the caller vouches for only up to a float.
inline bool aligned_to_16_bytes(std::int64_t n, const Operands& operands) {
  return n % 4 == 0 && reinterpret_cast<std::uintptr_t>(operands.b) % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(operands.c) % 16 == 0;
}

/// 16 bytes at once, in so many words: where a float4's address is only checked under a condition,
/// the compiler takes it apart.
#define TESSERA_STORE_16(instruction)                                                          \
  asm volatile(instruction " [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(values.x), "f"(values.y), \
               "f"(values.z), "f"(values.w)                                                    \
               : "memory")
__device__ inline void store_whole_16_bytes(float* to, float4 values,
                                            Store store = Store::kWriteBack) {
  switch (store) {
    case Store::kWriteBack:
      TESSERA_STORE_16("st.global.v4.f32");
      break;
    case Store::kInL2:
      TESSERA_STORE_16("st.global.cg.v4.f32");
      break;
    case Store::kStreaming:
      TESSERA_STORE_16("st.global.cs.v4.f32");
      break;
    case Store::kWriteThrough:
      TESSERA_STORE_16("st.global.wt.v4.f32");
      break;
  }
}
#undef TESSERA_STORE_16

/// The same for what C holds before; other lanes write beside it.
__device__ inline float4 load_old_16_bytes(const float* from) {
  float4 values;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values.x), "=f"(values.y), "=f"(values.z), "=f"(values.w)
               : "l"(from)
               : "memory");
  return values;
}

/// Stores as many of the four as there are columns, if any; `kAligned`: `to` is at 16 bytes, all or
/// none are.
template <bool kAligned>
__device__ void store_16_bytes(float* to, float4 sums, std::int64_t cols, const Scaling& scaling,
                               Store how = Store::kWriteBack) {
  if constexpr (kAligned) {
    if (cols <= 0) return;
    const auto store = [&](const float4& old) {
      store_whole_16_bytes(to,
                           {scaled(scaling, sums.x, &old.x), scaled(scaling, sums.y, &old.y),
                            scaled(scaling, sums.z, &old.z), scaled(scaling, sums.w, &old.w)},
                           how);
    };
    // Apart, so that the usual case does not carry the other's instructions along.
    if (scaling.beta == 0)
      store(sums);  // which nobody reads as C
    else
      store(load_old_16_bytes(to));
  } else {
    const float each[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i < cols) to[i] = scaled(scaling, each[i], to + i);
  }
}

/// What C is before sums are added to it: beta C, or zeros, when C is not read. Elements [first,
/// end), one for every thread of the thread block at a time.
__device__ inline void begin_adding(float* c, std::int64_t first, std::int64_t end,
                                    const Scaling& scaling) {
  if (scaling.beta == 0)
    for (std::int64_t at = first; at < end; at += blockDim.x) c[at] = 0;
  else
    for (std::int64_t at = first; at < end; at += blockDim.x) c[at] *= scaling.beta;
}

/// Adds alpha times as many of the four as there are columns; `aligned` as in store_16_bytes.
__device__ inline void add_16_bytes(float* to, float4 sums, std::int64_t cols, float alpha,
                                    bool aligned) {
  const float each[4] = {alpha * sums.x, alpha * sums.y, alpha * sums.z, alpha * sums.w};
#if __CUDA_ARCH__ >= 900
  if (aligned) {
    if (cols > 0)
      asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(each[0]),
                   "f"(each[1]), "f"(each[2]), "f"(each[3])
                   : "memory");
    return;
  }
#endif
  for (int i = 0; i < 4; ++i)
    if (i < cols) atomicAdd(to + i, each[i]);
}

}  // namespace tessera
