// Bitmap tiles (tSparse, section 2.1.2; after Zhang and Gruenwald, GRADES-NDA 2018): A cut by a
// regular grid of 8 x 8 tiles, without condensing; every tile that holds a nonzero is one entry of
// a COO of tiles: tile row, tile column, a 64-bit bitmap and the offset of its values.
//
// Departures from the paper, which packs (first value, bitmap) into a pair per tile: four separate
// arrays, and one more offset at the end, so that a tile's number of values is known without its
// bitmap; the bitmap's bit order, which the paper leaves open, is bit 8 * row + col; values are
// FP32 (a kernel rounds them to FP16 when it uploads them).
#pragma once

#include "formats/format.hpp"

namespace tessera {

struct BitmapTile final : PackedMatrix {
  static constexpr const char* kFormat = "bitmap_tile";
  static constexpr int kTileSide = 8;

  using PackedMatrix::PackedMatrix;

  std::vector<std::int32_t> tile_row;       // [tiles] row / 8, ascending
  std::vector<std::int32_t> tile_col;       // [tiles] col / 8, ascending in a tile row
  std::vector<std::uint64_t> bitmap;        // [tiles] bit 8 * row + col, never 0
  std::vector<std::uint32_t> value_offset;  // [tiles + 1] first value of a tile
  std::vector<float> values;                // [nnz] by tile, then by bit

  std::int64_t num_tiles() const { return static_cast<std::int64_t>(bitmap.size()); }

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;
  std::string locate(std::int32_t row) const override;
};

}  // namespace tessera
