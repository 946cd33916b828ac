// How tcgnn cuts C up; its host and its device half both go by this.
#pragma once

#include <cstdint>

#include "formats/tcf.hpp"
#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/window16_tile.hpp"

namespace tessera::tcgnn {

constexpr int kStages = 2;  // of a warp's rows of B: one is multiplied, one on its way
constexpr int kTiles = 4;   // of A: the same, and two that are cleared and may still be read
constexpr int kEdges = 8;   // of a row, looked at for a TC block: it has no more

/// Bytes of shared memory of a thread block: tiles and their columns, and the warps' stages.
constexpr std::int64_t shared_bytes(int warps) {
  return 4 * (kTiles * (window16_tile::kCells + window16_tile::kTileCols) +
              warps * kStages * window16_tile::kTileCols * row_windows::row_pitch(1));
}

/// Thread blocks side by side in C [rows x n].
constexpr std::int64_t num_chunks(std::int64_t n, int warps) {
  return (n + warps * window16_tile::kWarpCols - 1) / (warps * window16_tile::kWarpCols);
}

/// Throws an Error for other TC blocks than of 16 x 8.
void check_blocks(const Tcf& a);

}  // namespace tessera::tcgnn
