// Mosaic, our own format: tiles of 16 x 8 condensed columns for m16n8k8, whose bitmaps are in the
// order of a warp's lanes.
//
// A lane of m16n8k8 multiplies four elements of A: (g, t), (g + 8, t), (g, t + 4) and (g + 8, t +
// 4) for lane 4 g + t. Word i of a tile's bitmap has a bit for every lane's element i, and the
// tile's values follow in that order: a lane finds its element by one population count a word,
// without shared memory. Columns are condensed per window of 16 rows, as in ME-TCF.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "formats/format.hpp"
#include "formats/me_tcf.hpp"

namespace tessera {

struct Mosaic final : PackedMatrix {
  static constexpr const char* kFormat = "mosaic";
  static constexpr int kWindowRows = 16;
  static constexpr int kTileCols = 8;

  /// 128 bits, one for each cell of a tile. Device code reads it as four words of 32 bits.
  struct alignas(16) Bitmap {
    std::uint64_t words[2] = {0, 0};

    friend bool operator==(const Bitmap&, const Bitmap&) = default;
    bool has(int bit) const { return (words[bit / 64] >> bit % 64 & 1) != 0; }
    int count() const { return std::popcount(words[0]) + std::popcount(words[1]); }
    /// The number of bits below `bit`: the place of that bit's value among those of the tile.
    int rank(int bit) const {
      const int below = std::popcount(words[bit / 64] & ((std::uint64_t{1} << bit % 64) - 1));
      return below + (bit < 64 ? 0 : std::popcount(words[0]));
    }
  };

  /// The bit of a cell of a tile, and back: 32 (row / 8 + 2 (col / 4)) + 4 (row % 8) + col % 4.
  static constexpr int bit_of(int row, int col) {
    return 32 * (row / 8 + 2 * (col / 4)) + 4 * (row % 8) + col % 4;
  }
  static constexpr int row_of(int bit) { return bit % 32 / 4 + 8 * (bit / 32 % 2); }
  static constexpr int col_of(int bit) { return bit % 4 + 4 * (bit / 64); }

  using PackedMatrix::PackedMatrix;

  std::vector<std::uint32_t> window_offset;  // [windows + 1] first tile of a window
  std::vector<std::uint32_t> tile_offset;    // [tiles + 1] first nonzero of a tile
  std::vector<std::int32_t> tile_cols;       // [tiles * 8] column of A, or kNoColumn
  std::vector<Bitmap> bitmaps;               // [tiles]
  std::vector<float> values;                 // [nnz] by tile, then by bit

  static constexpr std::tuple kOffsets{&Mosaic::window_offset, &Mosaic::tile_offset};
  static constexpr std::tuple kArrays{&Mosaic::tile_cols, &Mosaic::bitmaps, &Mosaic::values};

  std::int64_t num_windows() const { return static_cast<std::int64_t>(window_offset.size()) - 1; }
  std::int64_t num_tiles() const { return static_cast<std::int64_t>(bitmaps.size()); }

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;
  std::string locate(std::int32_t row) const override;
};

/// The same tiles with a byte per nonzero.
std::unique_ptr<MeTcf> to_me_tcf(const Mosaic& a);

}  // namespace tessera
