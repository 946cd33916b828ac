// Formats that store whole blocks, on the device: values in their cells, zeros as padding, and the
// list of A's explicit zeros (formats/explicit_zeros.hpp).
#pragma once

#include <cub/device/device_radix_sort.cuh>

#include "formats/gpu/running_sum.cuh"
#include "formats/gpu/window_kernel.cuh"

namespace tessera {

/// The cells that a kernel writes values to.
struct DenseCells {
  float* values;
  std::int64_t* zeros;  // null when A has no explicit zeros
  unsigned long long* zeros_noted;

  __device__ void put(std::int64_t cell, float value) const {
    values[cell] = value;
    if (value == 0 && zeros != nullptr) zeros[atomicAdd(zeros_noted, 1ull)] = cell;
  }
};

/// 1 for an explicit zero.
struct IsZero {
  const float* values;
  __host__ __device__ std::int64_t operator()(std::int64_t k) const { return values[k] == 0; }
};

/// The cells of A's explicit zeros, collected in any order. The constructor waits for the stream.
class ZeroList {
 public:
  ZeroList(const DeviceCsr& matrix, cudaStream_t stream) : noted_(8, stream) {
    total(thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                          IsZero{matrix.values}),
          noted_.as<std::int64_t>(), matrix.nnz, stream);
    count_ = read_back(noted_.as<std::int64_t>(), stream);
    if (count_ == 0) return;
    cuda_check(cudaMemsetAsync(noted_.as<void>(), 0, 8, stream), "counting explicit zeros");
    cells_ = StreamBuffer(8 * count_, stream);
  }

  DenseCells cells(float* values) const {
    return {values, cells_.as<std::int64_t>(), noted_.as<unsigned long long>()};
  }

  /// Adds the sorted array `explicit_zeros` when A has any.
  void add_to(GpuPacked& packed, cudaStream_t stream) const {
    if (count_ == 0) return;
    auto* const sorted = packed.add<std::int64_t>("explicit_zeros", count_, stream);
    std::size_t bytes = 0;
    cuda_check(cub::DeviceRadixSort::SortKeys(nullptr, bytes, cells_.as<std::int64_t>(), sorted,
                                              count_, 0, 64, stream),
               "querying the scratch memory of a sort");
    const StreamBuffer scratch(static_cast<std::int64_t>(bytes), stream);
    cuda_check(cub::DeviceRadixSort::SortKeys(scratch.as<void>(), bytes, cells_.as<std::int64_t>(),
                                              sorted, count_, 0, 64, stream),
               "sorting explicit zeros");
  }

 private:
  StreamBuffer noted_, cells_;
  std::int64_t count_ = 0;
};

}  // namespace tessera
