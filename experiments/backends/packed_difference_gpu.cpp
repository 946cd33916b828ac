// Arrays are compared in host memory, one after another.
#include <cstring>

#include "experiments/backends/packed_difference.hpp"

namespace tessera {
namespace {

bool same_bytes(const GpuArray& array, const ArrayInfo& expected) {
  if (array.name != expected.name || array.data.bytes() != expected.bytes) return false;
  std::vector<std::byte> host(static_cast<std::size_t>(expected.bytes));
  cuda_check(
      cudaMemcpy(host.data(), array.data.as<std::byte>(), host.size(), cudaMemcpyDeviceToHost),
      "copying a packed array from the device");
  return host.empty() || std::memcmp(host.data(), expected.data, host.size()) == 0;
}

}  // namespace

std::string packed_difference(const GpuPacked& packed, const PackedMatrix& expected) {
  cuda_check(cudaDeviceSynchronize(), "packing");
  const std::vector<ArrayInfo> arrays = expected.arrays();
  if (packed.arrays.size() != arrays.size())
    return fmt::format("packed on the GPU it has {} arrays, not {}", packed.arrays.size(),
                       arrays.size());
  std::vector<std::string> different;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (!same_bytes(packed.arrays[i], arrays[i])) different.push_back(arrays[i].name);
  if (different.empty()) return "";
  return fmt::format("packed on the GPU, other bytes are in {}", fmt::join(different, ", "));
}

}  // namespace tessera
