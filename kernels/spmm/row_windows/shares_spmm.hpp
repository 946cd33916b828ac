// How shares_spmm cuts C up; its host and its device half both go by this.
//
// The TC blocks of the matrix are one stream, of which every thread block takes an equal contiguous
// share, for all columns of C (kernels/spmm/row_windows/staged_tiles.hpp: four warps, 128 columns a
// pass). A window whose TC blocks are not all in one share is summed by atomics onto a C that was
// cleared before.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/bit_tcf.hpp"

namespace tessera::shares_spmm {

constexpr std::int64_t kThreadBlocks = 132 * 8;  // an H200's: as many as are resident at once
constexpr int kRegisters = 56;                   // of a thread, as they are allocated: in eights

// Clearing: every thread of a thread block stores a few zeros, a warp 128 bytes at a time.
constexpr int kClearThreads = 256;
constexpr int kClearStores = 16;
constexpr int kClearValues = kClearThreads * kClearStores;  // of a thread block
constexpr int kClearRegisters = 24;

/// What a thread block does: TC blocks [first, last), the first of them in row window `window`.
struct alignas(16) Share {
  std::uint32_t first, last;
  std::uint32_t window;
  std::uint32_t window_first;  // the window's first TC block
};

/// Equal to one TC block; those left without any are empty. [thread_blocks]
std::vector<Share> plan_shares(const BitTcf& a, std::int64_t thread_blocks);

}  // namespace tessera::shares_spmm
