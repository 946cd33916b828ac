// The schedule of smat: the compiled instances, the strip and the columns of C of every warp, and
// the layout of stages. The device code, the work description and the warp trace read it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::smat {

constexpr int kWarps = 2;  // of a thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kDepth = 16;                              // columns of a tile
constexpr int kMmaRows = 8;                             // rows of A that an MMA takes
constexpr int kLaneWords = kDepth * kMmaRows / 2 / 32;  // of a lane's fragment of 16-bit values
constexpr int kGroupCols = 32;    // columns of C of kMmasPerGroup MMAs: four in a lane, 16 bytes
constexpr int kMmasPerGroup = 2;  // for eight rows of A
// Columns of C of a single MMA for sixteen rows of A, which is then the left operand.
constexpr int kBlockCols = 8;
constexpr int kMaxStages = 4;

/// The rungs of SMaT's ladder of optimisations; kernels/spmm/smat/smat.cpp describes them.
enum class Rung { kB, kT, kBt, kCbt };

constexpr bool on_tensor_cores(Rung rung) { return rung != Rung::kB; }
/// True where a warp may have more than 32 columns, and A is stored as fragments.
constexpr bool by_blocks(Rung rung) { return rung == Rung::kBt || rung == Rung::kCbt; }

/// A compiled instance. kInstances lists all of them: it decides what is launched.
struct Instance {
  Rung rung;
  int height;     // rows of a strip
  int cols;       // of C, of a warp
  int registers;  // of a thread, as the hardware allocates them, with aligned operands (sm_90a)
};
constexpr std::array kInstances{
    Instance{Rung::kB, 8, 32, 64},     Instance{Rung::kB, 16, 8, 56},
    Instance{Rung::kB, 16, 32, 72},    Instance{Rung::kT, 8, 32, 56},
    Instance{Rung::kT, 16, 8, 40},     Instance{Rung::kT, 16, 32, 56},
    Instance{Rung::kBt, 8, 32, 64},    Instance{Rung::kBt, 8, 64, 72},
    Instance{Rung::kBt, 8, 128, 96},   Instance{Rung::kBt, 16, 8, 48},
    Instance{Rung::kBt, 16, 32, 64},   Instance{Rung::kBt, 16, 64, 96},
    Instance{Rung::kBt, 16, 128, 144}, Instance{Rung::kCbt, 8, 32, 56},
    Instance{Rung::kCbt, 8, 64, 72},   Instance{Rung::kCbt, 8, 128, 88},
    Instance{Rung::kCbt, 16, 8, 40},   Instance{Rung::kCbt, 16, 32, 64},
    Instance{Rung::kCbt, 16, 64, 88},  Instance{Rung::kCbt, 16, 128, 128},
};
/// The row of kInstances with these choices; kInstances.size() where there is none.
constexpr std::size_t find_instance(Rung rung, int height, int cols) {
  for (std::size_t i = 0; i < kInstances.size(); ++i)
    if (kInstances[i].rung == rung && kInstances[i].height == height && kInstances[i].cols == cols)
      return i;
  return kInstances.size();
}

/// Rows of C that a warp of `cols` columns has in its lanes at once on CUDA cores.
constexpr int rows_at_once(int cols) { return 32 / cols; }

/// Columns of a tile that a lane takes at once on CUDA cores, 16 bytes of a row of A, and those of
/// them that are needed.
constexpr int kColsAtOnce = 4;
TESSERA_HOST_DEVICE constexpr std::uint32_t cols_at_once(std::uint32_t cols, int first) {
  return cols >> first & ((1u << kColsAtOnce) - 1);
}

/// MMAs of a tile for the columns of a warp.
constexpr int mmas_of_tile(int cols, int height) {
  return cols == kBlockCols ? 1 : cols / kGroupCols * kMmasPerGroup * height / kMmaRows;
}

/// Floats from one row of B to the next in a stage of `cols` columns. Rows begin at multiples of 32
/// bytes, because cp.async reads a sector twice that it takes apart. Wide rows are eight floats
/// apart, so that the same 32 bytes of four rows one after another lie in different banks.
constexpr int stage_pitch(int cols) { return cols == kBlockCols ? cols : cols + 8; }

/// The row of a stage that holds row k of B. Lanes read rows two apart at once. In wide stages
/// these become rows one after another; in stages of kBlockCols columns, where lanes also copy four
/// rows at once, both any such four and rows 4i to 4i + 3 lie in different banks.
TESSERA_HOST_DEVICE constexpr int row_in_stage(int k, int cols) {
  return cols == kBlockCols ? k / 4 * 4 + (k + k / 4) % 4 : k / 2 + k % 2 * (kDepth / 2);
}

/// Bytes of a stage: the rows of B and the fragment of one tile.
constexpr std::int64_t stage_bytes(int cols, int height) {
  return 4 * kDepth * stage_pitch(cols) + 2 * kDepth * height;
}

/// The strip of a warp and its first column of C.
struct WarpItem {
  std::int64_t strip, first_col;
};
/// The item of a warp with `warp_cols` of the n columns of C; it has no work where there is no such
/// strip. The warps of a strip follow each other.
TESSERA_HOST_DEVICE constexpr WarpItem item_of(std::int64_t thread_block, std::uint32_t warp,
                                               std::int64_t n, int warp_cols) {
  const std::int64_t chunks = (n + warp_cols - 1) / warp_cols;
  const std::int64_t index = thread_block * kWarps + warp;
  return {index / chunks, index % chunks * warp_cols};
}
/// Thread blocks for `strips` strips.
constexpr std::int64_t thread_blocks(std::int64_t strips, std::int64_t n, int warp_cols) {
  return (strips * ((n + warp_cols - 1) / warp_cols) + kWarps - 1) / kWarps;
}

// Strips: `height` rows of C each, `per_block_row` of them in a block row of `block_rows` rows.
TESSERA_HOST_DEVICE constexpr std::int64_t first_row_of_strip(std::int64_t strip,
                                                              std::int64_t per_block_row,
                                                              std::int64_t block_rows, int height) {
  return strip / per_block_row * block_rows + strip % per_block_row * height;
}

}  // namespace tessera::smat
