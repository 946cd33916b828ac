// The schedule of csr_spmm: the row and the columns of C that each warp computes. The device code,
// the work description and the warp trace read it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::csr_spmm {

constexpr int kColsPerBlock = 32;  // columns of C of a thread block, one per lane
constexpr int kRowsPerBlock = 4;   // rows of C of a thread block, one per warp
constexpr int kThreads = kColsPerBlock * kRowsPerBlock;
constexpr int kRegisters = 32;              // of a thread; the hardware allocates them in eights
constexpr std::int64_t kMaxGridY = 65'535;  // CUDA's limit of a grid's second dimension
constexpr std::int64_t kMaxCols = kMaxGridY * kColsPerBlock;  // columns of B of a launch

/// The row of C of a warp and its first column.
struct WarpItem {
  std::int64_t row, first_col;
};

/// The item of warp `warp` of the thread block at (row_block, col_block) of the grid.
TESSERA_HOST_DEVICE constexpr WarpItem item_of(std::int64_t row_block, std::int64_t col_block,
                                               unsigned warp) {
  return {row_block * kRowsPerBlock + warp, col_block * kColsPerBlock};
}

/// The grid for C [rows x n]. Row blocks are the grid's first dimension.
struct Schedule {
  std::int64_t rows, n;

  constexpr std::int64_t row_blocks() const { return (rows + kRowsPerBlock - 1) / kRowsPerBlock; }
  constexpr std::int64_t col_blocks() const { return (n + kColsPerBlock - 1) / kColsPerBlock; }
  constexpr std::int64_t thread_blocks() const { return row_blocks() * col_blocks(); }

  /// The item of a warp of a thread block, which is numbered as CUDA numbers it. A warp whose row
  /// is not below `rows` has no work.
  constexpr WarpItem item_of(std::int64_t thread_block, int warp) const {
    return csr_spmm::item_of(thread_block % row_blocks(), thread_block / row_blocks(),
                             static_cast<unsigned>(warp));
  }
  /// Columns of C of an item.
  constexpr std::int64_t cols_of(const WarpItem& item) const {
    return std::min<std::int64_t>(kColsPerBlock, n - item.first_col);
  }
};

}  // namespace tessera::csr_spmm
