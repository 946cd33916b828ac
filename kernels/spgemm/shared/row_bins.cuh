// Sorts rows into bins on the device; a bin is the rows of one launch.
#pragma once

#include <cstdint>

#include "kernels/gpu_spgemm.hpp"

namespace tessera::row_bins {

inline constexpr unsigned kWholeWarp = 0xffffffff;

inline unsigned blocks_for(std::int64_t things, std::int64_t per_block) {
  return static_cast<unsigned>((things + per_block - 1) / per_block);
}

/// The lanes of a warp that have the same value as this one.
struct Peers {
  __device__ explicit Peers(unsigned value) {
    mask = __match_any_sync(kWholeWarp, value);
    leader = __ffs(static_cast<int>(mask)) - 1;
    rank = __popc(mask & ((1u << threadIdx.x % 32) - 1));
  }

  unsigned mask;
  int leader, rank;
};

/// The bin of a row, and an amount that is summed over rows.
struct RowBin {
  int bin;
  int amount;  // at least 0
};

using Sum = unsigned long long;  // a type of atomicAdd()

/// Counts over all rows.
template <int kBins>
struct Counts {
  unsigned rows[kBins];
  unsigned largest;  // largest amount of a row in the watched bin
  Sum watched, all;  // sums of amounts over the watched bin, and over all rows
};

template <int kBins>
struct Begins {
  unsigned of[kBins];
};

constexpr int kThreads = 256;

__device__ inline Sum sum_of_warp(Sum x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kWholeWarp, x, step);
  return x;
}

/// Chooses the bins of the rows of a thread block and counts. It counts in shared memory first,
/// because all rows may be in one bin. Counts begin at zero; bins may be nullptr.
template <class BinOf, int kBins>
__device__ void choose_bins_of_block(std::int64_t block, std::int64_t rows, BinOf bin_of,
                                     std::uint8_t* bins, Counts<kBins>* counts) {
  __shared__ Counts<kBins> own;
  if (threadIdx.x < kBins) own.rows[threadIdx.x] = 0;
  if (threadIdx.x == 0) own.largest = 0, own.watched = 0, own.all = 0;
  __syncthreads();
  const std::int64_t row = block * kThreads + threadIdx.x;
  const RowBin chosen = row < rows ? bin_of(row) : RowBin{255, 0};
  const Peers peers(static_cast<unsigned>(chosen.bin));
  const Sum amounts = sum_of_warp(static_cast<Sum>(chosen.amount));
  if (threadIdx.x % 32 == 0 && amounts != 0) atomicAdd(&own.all, amounts);
  if (row < rows) {
    if (bins != nullptr) bins[row] = static_cast<std::uint8_t>(chosen.bin);
    if (peers.rank == 0)
      atomicAdd(&own.rows[chosen.bin], static_cast<unsigned>(__popc(peers.mask)));
    if (chosen.bin == BinOf::kWatchedBin) {
      atomicAdd(&own.watched, static_cast<Sum>(chosen.amount));
      atomicMax(&own.largest, static_cast<unsigned>(chosen.amount));
    }
  }
  __syncthreads();
  if (threadIdx.x < kBins && own.rows[threadIdx.x] != 0)
    atomicAdd(&counts->rows[threadIdx.x], own.rows[threadIdx.x]);
  if (threadIdx.x != 0) return;
  if (own.all != 0) atomicAdd(&counts->all, own.all);
  if (own.watched == 0) return;
  atomicAdd(&counts->watched, own.watched);
  atomicMax(&counts->largest, own.largest);
}

/// Chooses the bin of every row and counts.
template <class BinOf, int kBins>
__global__ void __launch_bounds__(kThreads)
    choose_bins(std::int64_t rows, BinOf bin_of, std::uint8_t* bins, Counts<kBins>* counts) {
  choose_bins_of_block(std::int64_t{blockIdx.x}, rows, bin_of, bins, counts);
}

/// The bins that choose_bins() has written.
struct KeptBin {
  const std::uint8_t* bins;  // [rows]

  __device__ RowBin operator()(std::int64_t row) const { return {bins[row], 0}; }
};

/// Lists rows by bin. Cursors begin at zero and count the rows of each bin that are listed so far.
template <class BinOf, int kBins>
__global__ void __launch_bounds__(kThreads)
    list_rows(std::int64_t rows, BinOf bin_of, const __grid_constant__ Begins<kBins> begins,
              unsigned* cursors, int* listed) {
  __shared__ unsigned
      own[kBins];  // rows of this thread block; later the place of the first of them
  if (threadIdx.x < kBins) own[threadIdx.x] = 0;
  __syncthreads();
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const unsigned bin = row < rows ? static_cast<unsigned>(bin_of(row).bin) : 255;
  const Peers peers(bin);
  unsigned before = 0;
  if (row < rows && peers.rank == 0)
    before = atomicAdd(&own[bin], static_cast<unsigned>(__popc(peers.mask)));
  before = __shfl_sync(kWholeWarp, before, peers.leader);
  __syncthreads();
  if (threadIdx.x < kBins && own[threadIdx.x] != 0)
    own[threadIdx.x] = begins.of[threadIdx.x] + atomicAdd(&cursors[threadIdx.x], own[threadIdx.x]);
  __syncthreads();
  if (row < rows) listed[own[bin] + before + peers.rank] = static_cast<int>(row);
}

/// The rows of a matrix by bin, in no particular order within a bin, in the caller's memory.
template <int kBins>
class RowBins {
 public:
  /// On the device; zero before rows are sorted.
  struct State {
    Counts<kBins> counts;
    unsigned cursors[kBins];
  };
  struct Memory {
    std::uint8_t* bins;  // [rows]; nullptr: list() computes the bins again
    int* listed;         // [rows]; used from list() on
    State* state;
  };

  RowBins() = default;
  RowBins(std::int64_t rows, const Memory& memory) : rows_(rows), memory_(memory) {}

  /// Chooses every row's bin and counts. bin_of(row) returns a RowBin, on the device.
  template <class BinOf>
  void choose(BinOf bin_of, cudaStream_t stream) const {
    static_assert(kBins <= kThreads && kBins < 255);
    if (rows_ == 0) return;
    choose_bins<<<blocks_for(rows_, kThreads), kThreads, 0, stream>>>(rows_, bin_of, memory_.bins,
                                                                      &memory_.state->counts);
    cuda_check(cudaGetLastError(), "choosing bins");
  }

  /// The counts of choose(), on the device; list() takes a copy on the host.
  const Counts<kBins>* counts() const { return &memory_.state->counts; }

  void list(const Counts<kBins>& counts, cudaStream_t stream) {
    list(counts, KeptBin{memory_.bins}, stream);
  }
  template <class BinOf>
  void list(const Counts<kBins>& counts, BinOf bin_of, cudaStream_t stream) {
    std::copy_n(counts.rows, kBins, counts_.of);
    for (int bin = 1; bin < kBins; ++bin)
      begins_.of[bin] = begins_.of[bin - 1] + counts.rows[bin - 1];
    if (rows_ == 0) return;
    list_rows<<<blocks_for(rows_, kThreads), kThreads, 0, stream>>>(
        rows_, bin_of, begins_, memory_.state->cursors, memory_.listed);
    cuda_check(cudaGetLastError(), "sorting rows into bins");
  }

  int count(int bin) const { return static_cast<int>(counts_.of[bin]); }
  const int* rows(int bin) const { return memory_.listed + begins_.of[bin]; }

 private:
  std::int64_t rows_ = 0;
  Memory memory_{};
  Begins<kBins> counts_{}, begins_{};
};

}  // namespace tessera::row_bins
