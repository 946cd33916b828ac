// Which thread blocks of a product fetch which part of A into the L2 before it is asked for. The
// fetches are kernels/device/early_fetch.cuh.
//
// With cold caches a product of some microseconds waits for DRAM three times, one after another:
// for the begins of rows or windows, for their columns and values, and for the rows of B that these
// name. The thread blocks that begin first fetch a share of the columns and values each, so that
// the second wait is over with the first.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera {

/// Arrays of A, in as many shares as thread blocks take part.
struct EarlyFetch {
  static constexpr int kArrays = 2;

  const void* arrays[kArrays];    // at multiples of 16 bytes
  std::uint32_t shares[kArrays];  // bytes of a thread block, multiples of 128
  std::uint32_t thread_blocks;    // that take part

  /// The shares of two arrays, of first_bytes and second_bytes, for a launch of `thread_blocks`.
  /// Nobody fetches the bytes behind the last share, nor arrays that would fill much of the L2.
  static EarlyFetch of(const void* first, std::int64_t first_bytes, const void* second,
                       std::int64_t second_bytes, std::int64_t thread_blocks) {
    constexpr std::int64_t kMostBytes = 24 << 20;
    constexpr std::int64_t kMostBlocks = std::int64_t{132} * 8;  // that an H200 holds
    constexpr std::int64_t kShareUnit = 128;
    if (thread_blocks == 0 || first_bytes + second_bytes > kMostBytes) return {};
    const std::int64_t blocks = std::min(thread_blocks, kMostBlocks);
    const auto share = [&](std::int64_t bytes) {
      return static_cast<std::uint32_t>(bytes / blocks / kShareUnit * kShareUnit);
    };
    return {.arrays = {first, second},
            .shares = {share(first_bytes), share(second_bytes)},
            .thread_blocks = static_cast<std::uint32_t>(blocks)};
  }
};

}  // namespace tessera
