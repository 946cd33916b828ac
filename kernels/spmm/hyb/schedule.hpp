// The schedule of hyb_spmm: the tasks and the columns of C of every warp. The device code, the work
// description and the warp traces read it. See kernels/spmm/hyb/hyb.cpp for the method.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::hyb {

constexpr int kWarps = 8;  // of a thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kUnroll = 8;  // entries of an ELL row whose rows of B load together

/// The row of B that a warp reads for an entry. The column of an entry without a nonzero is the
/// complement of that of the last nonzero of its ELL row.
TESSERA_HOST_DEVICE constexpr std::uint32_t row_to_read(std::int32_t col) {
  return static_cast<std::uint32_t>(col < 0 ? ~col : col);
}

/// The task of a warp and its first column of C. All tasks of some columns come before those of the
/// next ones.
struct WarpItem {
  std::uint32_t task;
  std::int64_t first_col;
};

TESSERA_HOST_DEVICE constexpr WarpItem item_of(std::uint32_t thread_block, std::uint32_t warp,
                                               std::uint32_t blocks_of_tasks, int coarsen) {
  return {thread_block % blocks_of_tasks * kWarps + warp,
          std::int64_t{thread_block / blocks_of_tasks} * 32 * coarsen};
}

/// The first column that a warp reads for the lanes' column v: its own, or that of column 0 where
/// its own is beyond the last.
TESSERA_HOST_DEVICE constexpr std::int64_t first_read(std::int64_t first_col, int v,
                                                      std::int64_t n) {
  return first_col + 32 * v < n ? first_col + 32 * v : first_col;
}

/// The launch that multiplies `tasks` tasks by a B of n columns; a lane has `coarsen` columns of C,
/// 32 apart.
struct Schedule {
  std::int64_t tasks, n;
  int coarsen;

  constexpr std::int64_t blocks_of_tasks() const { return (tasks + kWarps - 1) / kWarps; }
  constexpr std::int64_t chunks() const { return (n + 32 * coarsen - 1) / (32 * coarsen); }
  constexpr std::int64_t thread_blocks() const { return blocks_of_tasks() * chunks(); }
  constexpr WarpItem item_of(std::int64_t thread_block, int warp) const {
    return hyb::item_of(static_cast<std::uint32_t>(thread_block), static_cast<std::uint32_t>(warp),
                        static_cast<std::uint32_t>(blocks_of_tasks()), coarsen);
  }
  /// Columns of C of a warp: those of its lanes' column v.
  constexpr std::int64_t cols_of(std::int64_t first_col, int v) const {
    return std::clamp<std::int64_t>(n - first_col - 32 * v, 0, 32);
  }
  /// Columns of B that the warp reads for them.
  constexpr std::int64_t cols_read(std::int64_t first_col, int v) const {
    return std::min<std::int64_t>(n - first_read(first_col, v, n), 32);
  }
};

/// The launch that adds the parts of rows: a warp for each row.
TESSERA_HOST_DEVICE constexpr std::uint32_t finished_row_of(std::uint32_t thread_block,
                                                            std::uint32_t warp) {
  return thread_block * kWarps + warp;
}
constexpr std::int64_t finishing_blocks(std::int64_t rows) { return (rows + kWarps - 1) / kWarps; }

}  // namespace tessera::hyb
