// The columns of a row window as a bitmap in shared memory, ranked by counting bits.
//
// A thread counts the bits of a group of 1024 columns, so that the steps of a window are the groups
// that it touches; a prefix sum over the groups of the thread block gives the ranks.
#pragma once

#include <cub/block/block_scan.cuh>

#include <cstdint>

namespace tessera {

// A group of 32 words of the bitmap has one summary word, so that only nonzero words are read.
constexpr int kGroupCols = 1024;
constexpr int kGroupWords = 32;
constexpr int kMaxGroups = 224;  // 44.8 KB of shared memory: 229,376 columns at a time

/// The bitmap of a slab of columns in shared memory; sizes are in groups.
struct Slab {
  std::uint32_t* words;     // [groups * 32] a bit per column
  std::uint32_t* summary;   // [groups] a bit per word that is not zero
  std::uint32_t* ranks;     // [groups] marked columns before the group
  std::uint16_t* in_group;  // [groups * 32] marked columns of the group before the word

  __device__ Slab(std::uint32_t* memory, int groups)
      : words(memory),
        summary(words + groups * kGroupWords),
        ranks(summary + groups),
        in_group(reinterpret_cast<std::uint16_t*>(ranks + groups)),
        groups_(groups) {}

  static constexpr int bytes(int groups) { return groups * (kGroupWords * (4 + 2) + 4 + 4); }

  __device__ void mark(std::uint32_t col) const {
    const std::uint32_t bit = 1u << (col & 31);
    if ((atomicOr(&words[col >> 5], bit)) == 0)
      atomicOr(&summary[col >> 10], 1u << (col >> 5 & 31));
  }

  /// Ranks the words of a group within it and returns the number of its marked columns.
  __device__ std::uint32_t count(int group) const {
    std::uint32_t sum = 0;
    for (std::uint32_t rest = summary[group]; rest != 0; rest &= rest - 1) {
      const int word = group * kGroupWords + __ffs(static_cast<int>(rest)) - 1;
      in_group[word] = static_cast<std::uint16_t>(sum);
      sum += __popc(words[word]);
    }
    return sum;
  }

  __device__ std::uint32_t rank(std::uint32_t col) const {
    const std::uint32_t below = words[col >> 5] & ((1u << (col & 31)) - 1);
    return ranks[col >> 10] + in_group[col >> 5] + __popc(below);
  }

  /// Ranks all marked columns of `groups` groups, from `found` on, and returns the rank behind the
  /// last one. All threads of the thread block call it.
  template <int kThreads>
  __device__ std::uint32_t rank_groups(int groups, std::uint32_t found) const {
    using Scan = cub::BlockScan<std::uint32_t, kThreads>;
    __shared__ typename Scan::TempStorage scan;
    for (int base = 0; base < groups; base += kThreads) {
      const int group = base + static_cast<int>(threadIdx.x);
      std::uint32_t before = 0, sum = 0;
      Scan(scan).ExclusiveSum(group < groups ? count(group) : 0, before, sum);
      if (group < groups) ranks[group] = found + before;
      found += sum;
      __syncthreads();
    }
    return found;
  }

  template <int kThreads>
  __device__ void clear_all() const {
    for (int i = static_cast<int>(threadIdx.x); i < groups_ * kGroupWords; i += kThreads)
      words[i] = 0;
    for (int i = static_cast<int>(threadIdx.x); i < groups_; i += kThreads) summary[i] = 0;
  }
  __device__ void clear(int group) const {
    for (std::uint32_t rest = summary[group]; rest != 0; rest &= rest - 1)
      words[group * kGroupWords + __ffs(static_cast<int>(rest)) - 1] = 0;
    summary[group] = 0;
  }

 private:
  int groups_;
};

}  // namespace tessera
