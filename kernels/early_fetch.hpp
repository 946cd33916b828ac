// Which thread blocks of a product fetch which part of A into the L2 before it is asked for. The
// fetches are kernels/device/early_fetch.cuh.
//
// With cold caches a product of some microseconds waits for DRAM three times, one after another:
// for the begins of rows or windows, for their columns and values, and for the rows of B that these
// name. The thread blocks that begin first fetch a share of the columns and values each, so that
// the second wait is over with the first; and a share of B where it is small, so that the third is.
// With flushed caches citeseer takes 0.81 of the time by it at N = 128, 23 matrices 0.99 in
// geometric mean; with a warm L2 they take what they took. A B of 5 to 17 MB comes no sooner so.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera {

/// Arrays, in as many shares as thread blocks take part.
struct EarlyFetch {
  struct Array {
    const void* at;       // a multiple of 16 bytes
    std::uint32_t bytes;  // a multiple of 16; less than 16 bytes behind it are left out
    std::uint32_t share;  // bytes of a thread block, a multiple of 128

    /// The bytes of thread block `block`, which begin at block * share; 0: none.
    TESSERA_HOST_DEVICE constexpr std::uint32_t bytes_of(std::uint32_t block) const {
      const std::uint64_t begin = std::uint64_t{block} * share;
      if (begin >= bytes) return 0;
      const auto rest = static_cast<std::uint32_t>(bytes - begin);
      return rest < share ? rest : share;
    }
  };
  static constexpr int kOfA = 2, kArrays = kOfA + 1;

  Array arrays[kArrays];        // columns and values of A, and B
  std::uint32_t thread_blocks;  // that take part

  /// The shares for a launch of `thread_blocks` of two arrays of A, and of a B of b_bytes, whose
  /// place a launch sets. Nobody fetches arrays that would fill much of the L2, nor a B that takes
  /// longer to come than its rows one by one.
  static EarlyFetch of(const void* first, std::int64_t first_bytes, const void* second,
                       std::int64_t second_bytes, std::int64_t b_bytes,
                       std::int64_t thread_blocks) {
    constexpr std::int64_t kMostBytes = 24 << 20, kMostOfB = 4 << 20;
    constexpr std::int64_t kMostShare = 1 << 19;  // the instruction counts to 2^20 - 16
    constexpr std::int64_t kMostBlocks = std::int64_t{132} * 8;  // that an H200 holds
    if (thread_blocks == 0 || first_bytes + second_bytes > kMostBytes) return {};
    const std::int64_t blocks = std::min(thread_blocks, kMostBlocks);
    const auto array = [&](const void* at, std::int64_t bytes) {
      constexpr std::int64_t kShareUnit = 128;
      const std::int64_t units = (bytes + kShareUnit - 1) / kShareUnit;
      const std::int64_t share = (units + blocks - 1) / blocks * kShareUnit;
      return Array{at, static_cast<std::uint32_t>(bytes / 16 * 16),
                   static_cast<std::uint32_t>(std::min(share, kMostShare))};
    };
    return {.arrays = {array(first, first_bytes), array(second, second_bytes),
                       array(nullptr, b_bytes <= kMostOfB ? b_bytes : 0)},
            .thread_blocks = static_cast<std::uint32_t>(blocks)};
  }

  /// Sets where B is; one that is not aligned is not fetched.
  void set_b(const void* b, bool aligned) {
    arrays[kOfA].at = b;
    if (!aligned) arrays[kOfA].bytes = 0;
  }
};

}  // namespace tessera
