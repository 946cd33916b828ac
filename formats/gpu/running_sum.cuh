// Prefix sums and sums of arrays on the device, and reading a value back.
#pragma once

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>

#include "formats/base/device_memory.hpp"

namespace tessera {

/// The exclusive prefix sum: sums[i] = from[0] + ... + from[i - 1] for i in [0, count). Reads
/// `from` once.
template <class From, class To>
void running_sum(From from, To* sums, std::int64_t count, cudaStream_t stream) {
  std::size_t bytes = 0;
  cuda_check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, from, sums, count, stream),
             "querying the scratch memory of a prefix sum");
  const StreamBuffer scratch(static_cast<std::int64_t>(bytes), stream);
  cuda_check(cub::DeviceScan::ExclusiveSum(scratch.as<void>(), bytes, from, sums, count, stream),
             "summing up");
}

struct InSixtyFourBits {
  template <class T>
  __host__ __device__ std::int64_t operator()(T value) const {
    return static_cast<std::int64_t>(value);
  }
};

/// *sum = from[0] + ... + from[count - 1].
template <class From>
void total(From from, std::int64_t* sum, std::int64_t count, cudaStream_t stream) {
  const auto wide = thrust::make_transform_iterator(from, InSixtyFourBits());
  std::size_t bytes = 0;
  cuda_check(cub::DeviceReduce::Sum(nullptr, bytes, wide, sum, count, stream),
             "querying the scratch memory of a sum");
  const StreamBuffer scratch(static_cast<std::int64_t>(bytes), stream);
  cuda_check(cub::DeviceReduce::Sum(scratch.as<void>(), bytes, wide, sum, count, stream),
             "summing up");
}

/// Copies one value from the device; waits for the stream.
template <class T>
T read_back(const T* value, cudaStream_t stream) {
  T host{};
  cuda_check(cudaMemcpyAsync(&host, value, sizeof(T), cudaMemcpyDeviceToHost, stream),
             "reading from the device");
  cuda_check(cudaStreamSynchronize(stream), "building a packed matrix");
  return host;
}

}  // namespace tessera
