// Sums that several warps have parts of: four values added to C in the L2.
#pragma once

#include <cstdint>

namespace tessera {

/// Adds as many of the four as there are columns; `aligned`: `to` is at 16 bytes, all or none are.
__device__ inline void add_atomically(float* to, float4 values, std::int64_t cols, bool aligned) {
#if __CUDA_ARCH__ >= 900
  if (aligned) {
    if (cols > 0)
      asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(values.x),
                   "f"(values.y), "f"(values.z), "f"(values.w)
                   : "memory");
    return;
  }
#endif
  const float each[4] = {values.x, values.y, values.z, values.w};
  for (int i = 0; i < 4; ++i)
    if (i < cols) atomicAdd(to + i, each[i]);
}

}  // namespace tessera
