// A TC block of A, 16 rows high, as the left operand of MMAs (operands not swapped), and the
// columns of C that a warp's MMAs compute: the tile of dtc_spmm and tcgnn, for host and device.
#pragma once

#include "kernels/host_device.hpp"
#include "kernels/tensor_core/mma_columns.hpp"

namespace tessera::window16_tile {

constexpr int kWindowRows = 16;
constexpr int kTileCols = 8;  // condensed columns of a TC block
constexpr int kTileElements = kWindowRows * kTileCols;
constexpr int kWarpCols = 32;  // columns of C of a group: four MMAs
constexpr int kMmas = 4;       // of a group and a TC block, by m16n8k8
constexpr int kMmaRows = 8;    // half a window: the rows of one register of a lane's accumulators

/// The position in shared memory of element 8 * row + column of a TC block. Every second group of
/// four rows is swizzled by half a row, so that the 32 lanes that read a fragment find 32 banks.
TESSERA_HOST_DEVICE constexpr int tile_position(int id) { return id ^ (id >> 3 & 4); }

/// The first of the kWidth columns of C that column `mma_col` of MMAs kWidth * part to kWidth *
/// (part + 1) - 1 of a group stands for, one column each: a lane loads kWidth columns of a row of B
/// at once.
template <int kWidth>
TESSERA_HOST_DEVICE constexpr int first_col(int part, int mma_col) {
  static_assert(kWidth == 1 || kWidth == 2 || kWidth == 4, "a load is of one, two or four floats");
  return kWidth == 4 ? 4 * place_of_piece(mma_col) : kWidth * (8 * part + mma_col);
}

}  // namespace tessera::window16_tile
