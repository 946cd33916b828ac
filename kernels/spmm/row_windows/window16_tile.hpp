// A TC block of A as the left operand of MMAs, 16 rows high (operands not swapped), and the columns
// of C that a warp's MMAs have: what dtc_spmm and tcgnn have in common, host and device.
#pragma once

#include "kernels/tensor_core/mma_columns.hpp"

namespace tessera::window16_tile {

constexpr int kWindowRows = 16;
constexpr int kTileCols = 8;  // condensed columns of a TC block
constexpr int kCells = kWindowRows * kTileCols;
constexpr int kWarpCols = 32;  // columns of C of a group: four MMAs
constexpr int kMmas = 4;       // of a group and 8 condensed columns, where they are 8 deep
constexpr int kPad = 8;        // floats after a staged row of B: see place_of_piece

/// Where shared memory has cell 8 * row + column of a TC block. Rows g and g + 4 change places by
/// half a row, so that the 32 lanes that read a fragment's column t of rows g find 32 banks.
constexpr int place_of_cell(int id) { return id ^ (id >> 3 & 4); }

/// First of the kWidth columns of C that MMA column `mma_col` of a group's MMAs kWidth * part on
/// are, one column each: a lane takes kWidth columns of a row of B at once.
template <int kWidth>
constexpr int first_col(int part, int mma_col) {
  static_assert(kWidth == 1 || kWidth == 2 || kWidth == 4, "a load has so many floats");
  return kWidth == 4 ? 4 * place_of_piece(mma_col) : kWidth * (8 * part + mma_col);
}

}  // namespace tessera::window16_tile
