// Prefix sums and sums of arrays on the device, and reading a value back.
#pragma once

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/block/block_scan.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>

#include "formats/base/read_back.hpp"

namespace tessera {

constexpr int kSumThreads = 512;
/// Sums that one thread block finds sooner than several launches would begin.
constexpr std::int64_t kOneBlockSums = 16 * kSumThreads;

/// `last`, unless it is null, becomes sums[count - 1]; it may be of the host.
template <class From, class To>
__global__ void __launch_bounds__(kSumThreads)
    sum_in_one_block(From from, To* sums, std::int64_t count, To* last) {
  using Scan = cub::BlockScan<To, kSumThreads>;
  __shared__ typename Scan::TempStorage scan;
  To before = 0;
  for (std::int64_t base = 0; base < count; base += kSumThreads) {
    const std::int64_t i = base + threadIdx.x;
    To sum{}, all{};
    Scan(scan).ExclusiveSum(i < count ? static_cast<To>(from[i]) : To{}, sum, all);
    if (i < count) sums[i] = before + sum;
    if (i + 1 == count && last != nullptr) *last = before + sum;
    before += all;
    __syncthreads();  // `scan` is free
  }
}

/// The exclusive prefix sum: sums[i] = from[0] + ... + from[i - 1] for i in [0, count). Reads
/// `from` once.
template <class From, class To>
void running_sum(From from, To* sums, std::int64_t count, cudaStream_t stream) {
  if (count <= kOneBlockSums) {
    if (count > 0)
      sum_in_one_block<<<1, kSumThreads, 0, stream>>>(from, sums, count, static_cast<To*>(nullptr));
    return cuda_check(cudaGetLastError(), "summing up");
  }
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
  static thread_local ReadBack<T> host;
  host.request(value, stream);
  return host.wait(stream);
}

/// The same as running_sum, for a count that is not zero; returns the last sum, and waits for the
/// stream. A thread block that sums up alone writes it to the host, which saves a copy.
template <class From, class To>
To read_running_sum(From from, To* sums, std::int64_t count, cudaStream_t stream) {
  if (count > kOneBlockSums) {
    running_sum(from, sums, count, stream);
    return read_back(sums + count - 1, stream);
  }
  static thread_local ReadBack<To> host;
  To* const last = const_cast<To*>(&*host);  // pinned memory has one address on both sides
  sum_in_one_block<<<1, kSumThreads, 0, stream>>>(from, sums, count, last);
  cuda_check(cudaGetLastError(), "summing up");
  return host.wait(stream);
}

}  // namespace tessera
