// Checks and copies that every device half of our SDDMM kernels makes.
#pragma once

#include "formats/base/device_memory.hpp"

namespace tessera::sddmm {

/// Throws Unsupported where a row of X or Y is longer than the 32 bits that address its bytes.
inline void require_addressable(const char* kernel, std::int64_t k) {
  require<Unsupported>(k < std::int64_t{1} << 29,
                       "{} takes less than 2^29 columns of X and Y, not {}", kernel, k);
}

/// Replaces the values of A, which multiply S, from memory on the device; nothing where none do.
inline void replace_factors(DeviceArray<float>& factors, const float* values, cudaStream_t stream) {
  if (factors.size() == 0) return;
  cuda_check(cudaMemcpyAsync(factors.data(), values, factors.size() * sizeof(float),
                             cudaMemcpyDeviceToDevice, stream),
             "replacing the values of A");
}

}  // namespace tessera::sddmm
