// The schedule of shares_spmm: the TC blocks of the matrix are one stream, of which every thread
// block takes an equal contiguous share, for all columns of C
// (kernels/spmm/row_windows/staged_tiles.hpp: four warps, 128 columns a pass). A window that is
// split over several shares is summed by atomics onto a C that was cleared before.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/bit_tcf.hpp"
#include "kernels/host_device.hpp"

namespace tessera::shares_spmm {

constexpr std::int64_t kThreadBlocks = 132 * 8;  // those that are resident at once on an H200

// The launch that clears C: every thread stores some zeros, a warp 128 bytes at a time.
constexpr int kClearThreads = 256;
constexpr int kClearStores = 16;                            // of a thread
constexpr int kClearValues = kClearThreads * kClearStores;  // of a thread block

constexpr std::int64_t clear_thread_blocks(std::int64_t values) {
  return (values + kClearValues - 1) / kClearValues;
}
/// The element of C that a thread clears with store number `store`.
TESSERA_HOST_DEVICE constexpr std::int64_t cleared_value(std::uint32_t thread_block, int store,
                                                         std::uint32_t thread) {
  return std::int64_t{thread_block} * kClearValues + thread + store * kClearThreads;
}

/// The TC blocks [first, last) of a thread block; the first one is in row window `window`.
struct alignas(16) Share {
  std::uint32_t first, last;
  std::uint32_t window;
  std::uint32_t window_first;  // the window's first TC block
};

/// Shares whose lengths differ by one TC block at most, some of them empty where there are fewer TC
/// blocks than thread blocks. [thread_blocks]
std::vector<Share> plan_shares(const BitTcf& a, std::int64_t thread_blocks);

}  // namespace tessera::shares_spmm
