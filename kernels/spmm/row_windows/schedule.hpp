// The schedule of a kernel whose warps compute tasks of row windows (window_tasks.hpp): which
// thread block and warp computes which tasks and which columns of C. Device code, work description
// and warp trace all read it.
#pragma once

#include <cstdint>

#include "kernels/host_device.hpp"
#include "kernels/spmm/row_windows/window_tile.hpp"

namespace tessera::row_windows {

constexpr int kWarps = 4;  // of a thread block of independent warps

/// The work of one warp: the tasks of share `share`, for columns [chunk * warp_cols(), ...) of C.
struct WorkItem {
  std::uint32_t share;  // the warp is idle where this is num_shares or more
  std::uint32_t chunk;
};

/// A thread block is either one team of several warps next to each other in C, which share the TC
/// blocks of A in shared memory, or several teams of one warp each. Thread blocks of one chunk of
/// columns come before those of the next: the columns of B that are read at a time are then
/// narrower than B and stay in the L2. With `chunks_at_once` > 1, which is then the number of all
/// chunks, those of the same rows are neighbours instead, for teams of one warp: A is read once.
struct Schedule {
  int window_rows;  // height of a window
  int groups;       // groups of 32 columns of C that a warp computes at a time
  int team = 1;     // warps
  std::uint32_t chunks_at_once = 1;

  TESSERA_HOST_DEVICE constexpr int teams() const { return team == 1 ? kWarps : 1; }
  TESSERA_HOST_DEVICE constexpr int warps() const { return team * teams(); }
  TESSERA_HOST_DEVICE constexpr int threads() const { return 32 * warps(); }
  TESSERA_HOST_DEVICE constexpr int warp_cols() const { return window_tile::kWarpCols * groups; }
  TESSERA_HOST_DEVICE constexpr int team_cols() const { return warp_cols() * team; }
  /// The number of 16-byte vectors of sums that a lane holds.
  TESSERA_HOST_DEVICE constexpr int lane_vectors() const { return window_rows * groups / 4; }

  /// The number of teams side by side in C [rows x n].
  constexpr std::int64_t team_chunks(std::int64_t n) const {
    return (n + team_cols() - 1) / team_cols();
  }
  /// The number of warps side by side in C, including those beyond its edge.
  constexpr std::int64_t chunks(std::int64_t n) const { return team_chunks(n) * team; }

  TESSERA_HOST_DEVICE constexpr std::int64_t first_col(std::int64_t chunk) const {
    return chunk * warp_cols();
  }

  constexpr std::int64_t thread_blocks(std::int64_t num_shares, std::int64_t n) const {
    return (num_shares + teams() - 1) / teams() * team_chunks(n);
  }

  TESSERA_HOST_DEVICE constexpr WorkItem item_of(std::uint32_t thread_block, std::uint32_t warp,
                                                 std::uint32_t num_shares) const {
    if (team > 1)
      return {thread_block % num_shares,
              thread_block / num_shares * static_cast<std::uint32_t>(team) + warp};
    if (chunks_at_once > 1)
      return {thread_block / chunks_at_once * kWarps + warp, thread_block % chunks_at_once};
    // Nothing is divided in the first chunk, which is often all there are.
    const std::uint32_t of_chunk = (num_shares + kWarps - 1) / kWarps;
    const std::uint32_t chunk = thread_block < of_chunk ? 0 : thread_block / of_chunk;
    return {(thread_block - chunk * of_chunk) * kWarps + warp, chunk};
  }
};

// The launch that clears split windows before atomics add to them: one thread block for each.
constexpr int kClearThreads = 256;

}  // namespace tessera::row_windows
