// The radix sort that orders on the GPU share, compiled once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera {

/// Sorts values by the low `bits` of their keys, equal ones in their order. Where there is no
/// memory it only sets `bytes` to what it needs. Throws as cuda_check does.
void sort_on_gpu(void* memory, std::size_t& bytes, const std::uint32_t* keys,
                 std::uint32_t* sorted_keys, const std::uint32_t* values,
                 std::uint32_t* sorted_values, std::int64_t count, int bits, cudaStream_t stream);

}  // namespace tessera
