// Rows sorted into bins on the device, a bin being what one launch takes; and offsets from lengths.
#pragma once

#include <thrust/iterator/transform_iterator.h>

#include <array>
#include <cstdint>
#include <cub/device/device_scan.cuh>

#include "formats/running_sum.cuh"
#include "kernels/gpu_spgemm.hpp"

namespace tessera::row_bins {

inline constexpr unsigned kWholeWarp = 0xffffffff;

inline unsigned blocks_for(std::int64_t things, std::int64_t per_block) {
  return static_cast<unsigned>((things + per_block - 1) / per_block);
}

/// offsets[i] = lengths[0] + ... + lengths[i - 1], i in [0, count]; in 64 bits.
template <class Lengths>
void sum_up(Lengths lengths, std::int64_t* offsets, std::int64_t count, ProductRun& run) {
  cuda_check(cudaMemsetAsync(offsets, 0, sizeof(*offsets), run.stream()), "clearing an offset");
  if (count == 0) return;
  const auto wide = thrust::make_transform_iterator(lengths, InSixtyFourBits());
  std::size_t bytes = 0;
  cuda_check(cub::DeviceScan::InclusiveSum(nullptr, bytes, wide, offsets + 1, count, run.stream()),
             "asking for the scratch memory of a running sum");
  const RunArray<char> scratch(run, static_cast<std::int64_t>(bytes));
  cuda_check(
      cub::DeviceScan::InclusiveSum(scratch.data(), bytes, wide, offsets + 1, count, run.stream()),
      "summing up");
}

/// What a lane knows of those lanes of its warp that have the same value.
struct Peers {
  __device__ explicit Peers(unsigned value) {
    mask = __match_any_sync(kWholeWarp, value);
    leader = __ffs(static_cast<int>(mask)) - 1;
    rank = __popc(mask & ((1u << threadIdx.x % 32) - 1));
  }

  unsigned mask;
  int leader, rank;
};

template <class BinOf>
__global__ void choose_bins(std::int64_t rows, BinOf bin_of, std::uint8_t* bins, int* counts) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const unsigned bin = row < rows ? bin_of(row) : 255;
  const Peers peers(bin);
  if (row >= rows) return;
  bins[row] = static_cast<std::uint8_t>(bin);
  if (peers.rank == 0) atomicAdd(&counts[bin], __popc(peers.mask));
}

/// Lists rows by bin; a cursor is where the next row of its bin goes.
static __global__ void list_rows(std::int64_t rows, const std::uint8_t* bins, int* cursors,
                                 int* listed) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const unsigned bin = row < rows ? bins[row] : 255;
  const Peers peers(bin);
  int place = 0;
  if (row < rows && peers.rank == 0) place = atomicAdd(&cursors[bin], __popc(peers.mask));
  place = __shfl_sync(kWholeWarp, place, peers.leader);
  if (row < rows) listed[place + peers.rank] = static_cast<int>(row);
}

/// The rows of a matrix by bin, in no particular order within one; kBins < 255.
template <int kBins>
class RowBins {
 public:
  /// Sorts by bin_of(row), a functor for the device. Waits for the stream.
  template <class BinOf>
  RowBins(std::int64_t rows, BinOf bin_of, ProductRun& run) : listed_(run, rows) {
    if (rows == 0) return;
    const RunArray<std::uint8_t> bins(run, rows);
    const RunArray<int> cursors(run, kBins);
    const cudaStream_t stream = run.stream();
    cuda_check(cudaMemsetAsync(cursors.data(), 0, sizeof(counts_), stream), "clearing counts");
    const unsigned blocks = blocks_for(rows, kThreads);
    choose_bins<<<blocks, kThreads, 0, stream>>>(rows, bin_of, bins.data(), cursors.data());
    cuda_check(cudaGetLastError(), "choosing bins");
    counts_ = read_back(reinterpret_cast<const Counts*>(cursors.data()), stream);
    for (int bin = 1; bin < kBins; ++bin) begins_[bin] = begins_[bin - 1] + counts_[bin - 1];
    cuda_check(cudaMemcpyAsync(cursors.data(), begins_.data(), sizeof(begins_),
                               cudaMemcpyHostToDevice, stream),
               "telling where bins begin");
    list_rows<<<blocks, kThreads, 0, stream>>>(rows, bins.data(), cursors.data(), listed_.data());
    cuda_check(cudaGetLastError(), "sorting rows into bins");
  }

  int count(int bin) const { return counts_[bin]; }
  const int* rows(int bin) const { return listed_.data() + begins_[bin]; }

 private:
  using Counts = std::array<int, kBins>;
  static constexpr int kThreads = 256;

  Counts counts_{}, begins_{};
  RunArray<int> listed_;
};

}  // namespace tessera::row_bins
