// How acc_spmm cuts C up and what it can be told; its host and its device half both go by this.
#pragma once

#include <algorithm>
#include <cstdint>

#include "formats/base/params.hpp"
#include "formats/bit_tcf.hpp"
#include "kernels/precision.hpp"
#include "kernels/window_tasks.hpp"
#include "kernels/window_tile.hpp"

namespace tessera::acc_spmm {

constexpr int kWarps = 4;  // per thread block
constexpr int kThreads = 32 * kWarps;

/// Where a warp gets rows of B from.
enum class Pipeline {
  kStaged,     // whole rows to stages in shared memory, asynchronously
  kRegisters,  // each lane the elements it multiplies
};

/// How the sums of a split window come together.
enum class Combine {
  kOrdered,  // the last task to arrive adds all, in the order of their TC blocks
  kAtomic,   // each adds its own to C
};

struct Choices {
  explicit Choices(const Params& params);

  Precision precision;
  Pipeline pipeline;
  int stages;       // of a warp; staged
  int columns;      // of C that a warp computes at a time; 0: by the width of C
  bool through_l1;  // asynchronous copies leave lines in the L1
  std::string balance;
  std::int64_t max_blocks;
  Combine combine;

  /// Groups of 32 columns of a warp: 1, 2 or 4.
  int groups(std::int64_t n) const;
  window_tasks::Tasks cut(const BitTcf& a) const;
};

std::vector<ParamSpec> params();

/// Warps side by side in C [rows x n].
constexpr std::int64_t num_chunks(std::int64_t n, int groups) {
  return (n + groups * window_tile::kWarpCols - 1) / (groups * window_tile::kWarpCols);
}

/// A stage: eight rows of B, of 32 columns a group and eight floats between rows, so that the eight
/// lanes that fetch pieces of four rows at once find them in different banks.
constexpr int row_pitch(int groups) { return groups * window_tile::kWarpCols + 8; }
constexpr std::int64_t shared_bytes(int groups, int stages) {
  return std::int64_t{4} * kWarps * stages * window_tile::kTileCols * row_pitch(groups);
}

}  // namespace tessera::acc_spmm
