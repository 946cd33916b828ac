// Values that the optimiser does not look through.
#pragma once

namespace tessera {

/// Returns the value, of 32 or 64 bits, and hides from the optimiser where it is from: what depends
/// on it is computed where it is used, and the value itself is not computed anew.
template <class T>
__device__ T hidden(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 4)
    asm volatile("" : "+r"(value));
  else
    asm volatile("" : "+l"(value));
  return value;
}

}  // namespace tessera
