// Bitmap tiles of 8 x 8 cells, as in tSparse (Zachariadis et al. 2020, section 3): the patterns of
// their products, and the conversion of C from tiles to CSR. Host and device read it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/host_device.hpp"

namespace tessera::spgemm {

constexpr int kSide = 8;  // rows and columns of a tile

/// A tile of A, B or C. Bit 8 row + col stands for a cell of A or C, bit 8 col + row for one of B,
/// so that each lane's part of an MMA operand is two neighbouring bits.
struct alignas(16) Tile {
  std::uint64_t bitmap;
  std::uint32_t first_value;
  std::int32_t col;  // in the grid of tiles
};

/// The tiles of C, sorted by row and column.
struct TilesOfC {
  std::vector<std::int32_t> tile_row, tile_col;  // [tiles]
  std::vector<std::uint64_t> bitmap;             // [tiles]
  std::vector<std::int64_t> first_value;         // [tiles + 1]
  std::vector<float> values;
};

/// Converts C to CSR from slices of its rows, in the order of rows.
CsrMatrix to_csr(std::int32_t rows, std::int32_t cols, std::span<const TilesOfC> slices);

/// The number of tiles with a nonzero in each row: at most as many MMAs make an element of the row.
/// [rows]
std::vector<std::int64_t> tiles_per_row(const CsrMatrix& matrix);

/// The OR of a bitmap's bytes: one bit per column of A's tile, or row of B's, that has a nonzero.
TESSERA_HOST_DEVICE constexpr std::uint32_t inner_indices(std::uint64_t bitmap) {
  std::uint64_t folded = bitmap | bitmap >> 32;
  folded |= folded >> 16;
  folded |= folded >> 8;
  return static_cast<std::uint32_t>(folded & 0xff);
}

/// One byte per column of C's tile, nonzero where row `row` has a product. The OR joins the bytes
/// of several pairs of tiles.
TESSERA_HOST_DEVICE constexpr std::uint64_t products_of_row(std::uint64_t a, std::uint64_t b,
                                                            int row) {
  return (a >> kSide * row & 0xff) * 0x0101010101010101u & b;
}

/// One bit per byte that is not zero.
TESSERA_HOST_DEVICE constexpr std::uint32_t nonzero_bytes(std::uint64_t bytes) {
  bytes |= bytes >> 4;
  bytes |= bytes >> 2;
  bytes |= bytes >> 1;
  return static_cast<std::uint32_t>((bytes & 0x0101010101010101u) * 0x0102040810204080u >> 56);
}

/// The Boolean product of two tiles by rows: each row of the first tile that contains an inner
/// index receives the row of the second tile with that index.
constexpr std::uint64_t multiply_bitmaps(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kFirstCols = 0x0101010101010101u;
  std::uint64_t cells = 0;
  for (int inner = 0; inner < kSide; ++inner)
    cells |= (a >> inner & kFirstCols) * (b >> kSide * inner & 0xff);
  return cells;
}

/// The value of a cell: undoes an exact scaling, and rounds once where FP32 underflows.
TESSERA_HOST_DEVICE constexpr float unscaled(float sum, double factor) {
  return factor == 1 ? sum : static_cast<float>(static_cast<double>(sum) * factor);
}

}  // namespace tessera::spgemm
