#include "reorder/gpu_sort.hpp"

#include <cub/device/device_radix_sort.cuh>

#include "formats/base/device_memory.hpp"

namespace tessera {

void sort_on_gpu(void* memory, std::size_t& bytes, const std::uint32_t* keys,
                 std::uint32_t* sorted_keys, const std::uint32_t* values,
                 std::uint32_t* sorted_values, std::int64_t count, int bits, cudaStream_t stream) {
  cuda_check(cub::DeviceRadixSort::SortPairs(memory, bytes, keys, sorted_keys, values,
                                             sorted_values, count, 0, bits, stream),
             "sorting on the device");
}

}  // namespace tessera
