// Writing a lane's four sums of a row of C: stored, or added in the L2 where several warps have
// parts of a sum, with alpha and beta applied.
#pragma once

#include <cstdint>

#include "kernels/device/store_operator.hpp"
#include "kernels/gpu_spmm.hpp"

namespace tessera {

/// True when every row of B and C begins at a multiple of 16 bytes, C's elements being no smaller
/// than B's of `b_bytes`. The caller guarantees only the alignment of an element for the two
/// arrays.
inline bool aligned_to_16_bytes(std::int64_t n, const Operands& operands,
                                std::size_t b_bytes = sizeof(float)) {
  return n % static_cast<std::int64_t>(16 / b_bytes) == 0 &&
         reinterpret_cast<std::uintptr_t>(operands.b) % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(operands.c) % 16 == 0;
}

/// A store of 16 bytes as inline PTX: the compiler would split a float4 whose address is only
/// checked under a condition.
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

/// A load of 16 bytes of the old C as inline PTX, for the same reason.
__device__ inline float4 load_old_16_bytes(const float* from) {
  float4 values;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values.x), "=f"(values.y), "=f"(values.z), "=f"(values.w)
               : "l"(from)
               : "memory");
  return values;
}

/// Stores the first min(cols, 4) sums, none when `cols` is not positive. With `kAligned`, `to` is
/// at a multiple of 16 bytes and `cols` is at least four or not positive.
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
    // Two branches keep the other case's instructions out of the usual one.
    if (scaling.beta == 0)
      store(sums);  // with beta 0 the old value is not read
    else
      store(load_old_16_bytes(to));
  } else {
    const float each[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i < cols) to[i] = scaled(scaling, each[i], to + i);
  }
}

/// Prepares elements of C for sums to be added: multiplies them by beta, or sets them to zero when
/// beta is 0, without reading C. A thread of the thread block takes elements first, first +
/// blockDim.x, ... below `end`.
__device__ inline void begin_adding(float* c, std::int64_t first, std::int64_t end,
                                    const Scaling& scaling) {
  if (scaling.beta == 0)
    for (std::int64_t at = first; at < end; at += blockDim.x) c[at] = 0;
  else
    for (std::int64_t at = first; at < end; at += blockDim.x) c[at] *= scaling.beta;
}

/// Adds alpha times the first min(cols, 4) sums to C in the L2; `aligned` as in store_16_bytes.
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
