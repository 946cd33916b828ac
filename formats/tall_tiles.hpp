// Tall tiles, our own format: tiles of 64 x 64 condensed columns, as high as the A of a wgmma, with
// two bytes per nonzero for its cell.
//
// The columns that hold a nonzero are condensed per window of 64 rows, so that a row of B is loaded
// once for 64 rows of C, and not once for 16. Up to 256 nonzeros a tile, their places take fewer
// bytes than a bitmap of 64 x 64 bits would. The footprint is 4 (windows + 2 + 65 tiles) + 6 nnz
// bytes.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "formats/format.hpp"

namespace tessera {

struct TallTiles final : PackedMatrix {
  static constexpr const char* kFormat = "tall_tiles";
  static constexpr int kWindowRows = 64;
  static constexpr int kTileCols = 64;

  using PackedMatrix::PackedMatrix;

  std::vector<std::uint32_t> window_offset;  // [windows + 1] first tile of a window
  std::vector<std::uint32_t> tile_offset;    // [tiles + 1] first nonzero of a tile
  std::vector<std::int32_t> tile_cols;       // [tiles * 64] column of A, or kNoColumn
  std::vector<std::uint16_t> places;         // [nnz] 64 * row in the window + column in the tile,
                                             // ascending in a tile
  std::vector<float> values;                 // [nnz] in the same order

  static constexpr std::tuple kOffsets{&TallTiles::window_offset, &TallTiles::tile_offset};
  static constexpr std::tuple kArrays{&TallTiles::tile_cols, &TallTiles::places,
                                      &TallTiles::values};

  /// The place of a cell of a tile, and back.
  static constexpr int place_of(int row, int col) { return row * kTileCols + col; }
  static constexpr int row_of(int place) { return place / kTileCols; }
  static constexpr int col_of(int place) { return place % kTileCols; }

  std::int64_t num_windows() const { return std::ssize(window_offset) - 1; }
  std::int64_t num_tiles() const { return std::ssize(tile_offset) - 1; }

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;
  std::string locate(std::int32_t row) const override;
};

}  // namespace tessera
