// Tiles of 8 x 8 cells with a bitmap, as tSparse has them (Zachariadis et al. 2020, section 3):
// their products' patterns, and C from tiles back to CSR. Host and device read it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/host_device.hpp"

namespace tessera::spgemm {

constexpr int kSide = 8;  // of a tile

/// A tile of A, of B or of C. Of A and C bit 8 row + col is a cell, of B bit 8 col + row: as an
/// operand of an MMA a lane then has two neighbouring bits of either.
struct alignas(16) Tile {
  std::uint64_t bitmap;
  std::uint32_t first_value;
  std::int32_t col;  // of the grid of tiles
};

/// Tiles of C, by row and column.
struct TilesOfC {
  std::vector<std::int32_t> tile_row, tile_col;  // [tiles]
  std::vector<std::uint64_t> bitmap;             // [tiles]
  std::vector<std::int64_t> first_value;         // [tiles + 1]
  std::vector<float> values;
};

/// C from its slices, which follow each other by rows.
CsrMatrix to_csr(std::int32_t rows, std::int32_t cols, std::span<const TilesOfC> slices);

/// Tiles with a nonzero in the row: the MMAs that its elements are sums of, at most. [rows]
std::vector<std::int64_t> tiles_per_row(const CsrMatrix& matrix);

/// The OR of a bitmap's bytes: columns of A's tile, or rows of B's, that hold anything.
TESSERA_HOST_DEVICE constexpr std::uint32_t inner_indices(std::uint64_t bitmap) {
  std::uint64_t folded = bitmap | bitmap >> 32;
  folded |= folded >> 16;
  folded |= folded >> 8;
  return static_cast<std::uint32_t>(folded & 0xff);
}

/// A byte for each column of C's tile, nonzero where the tile's row has a product there. Bytes of
/// several products are joined by OR.
TESSERA_HOST_DEVICE constexpr std::uint64_t products_of_row(std::uint64_t a, std::uint64_t b,
                                                            int row) {
  return (a >> kSide * row & 0xff) * 0x0101010101010101u & b;
}

/// The bits, one a column, of bytes that are not zero.
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

/// The value of a cell: an exact scaling undone, rounded once where FP32 underflows.
TESSERA_HOST_DEVICE constexpr float unscaled(float sum, double factor) {
  return factor == 1 ? sum : static_cast<float>(static_cast<double>(sum) * factor);
}

}  // namespace tessera::spgemm
