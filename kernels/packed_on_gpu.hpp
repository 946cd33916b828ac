// An A that was packed on the device, which a kernel's device half can take as it is
// (GpuSpmm::adopt).
#pragma once

#include <cstdint>

#include "formats/gpu/gpu_format.hpp"

namespace tessera {

struct PackedOnGpu {
  std::int32_t rows = 0, cols = 0;
  std::int64_t nnz = 0;
  GpuPacked packed = {};

  /// The footprint, as of stats().
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const GpuArray& array : packed.arrays) sum += array.data.bytes();
    return sum;
  }

  /// The array of that name, with `more` elements of zero bytes behind it.
  template <class T>
  DeviceArray<T> copy(const char* name, std::size_t more = 0) const {
    for (const GpuArray& array : packed.arrays) {
      if (array.name != name) continue;
      const auto bytes = static_cast<std::size_t>(array.data.bytes());
      DeviceArray<T> made(bytes / sizeof(T) + more);
      if (bytes > 0)
        cuda_check(cudaMemcpyAsync(made.data(), array.data.as<void>(), bytes,
                                   cudaMemcpyDeviceToDevice, nullptr),
                   "copying an array of A");
      if (more > 0)
        cuda_check(cudaMemsetAsync(made.data() + bytes / sizeof(T), 0, more * sizeof(T), nullptr),
                   "clearing the room behind an array of A");
      return made;
    }
    throw Error(fmt::format("the packed A has no array {}", name));
  }
};

}  // namespace tessera
