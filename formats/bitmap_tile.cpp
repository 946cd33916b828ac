#include "formats/bitmap_tile.hpp"

#include <algorithm>
#include <bit>

#include "formats/base/registry.hpp"
#include "formats/condense.hpp"
#include "formats/unpack.hpp"

namespace tessera {
namespace {

constexpr int kTileSide = BitmapTile::kTileSide;

class BitmapTileFormat final : public Format {
 public:
  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    // Every tile holds a nonzero, so the number of tiles fits when that of nonzeros does.
    limits.require_offset(BitmapTile::kFormat, "nonzeros", matrix.nnz());
    auto packed = std::make_unique<BitmapTile>(matrix.rows, matrix.cols, matrix.nnz());
    Condensed condensed = condense(matrix, kTileSide, kTileSide);
    const Tiling tiling = tile(matrix, condensed, 1);
    packed->tile_row.resize(condensed.cols.size());
    packed->bitmap.resize(condensed.cols.size());
    packed->value_offset.assign(tiling.nnz_offsets.begin(), tiling.nnz_offsets.end());
    packed->values.resize(static_cast<std::size_t>(matrix.nnz()));
    for_each_cell(matrix, condensed, tiling, 1, [&](const TileCell& cell) {
      packed->tile_row[cell.tile] = static_cast<std::int32_t>(cell.window);
      packed->bitmap[cell.tile] |= std::uint64_t{1} << (cell.row * kTileSide + cell.col);
      packed->values[cell.slot] = matrix.values[cell.nonzero];
    });
    packed->tile_col = std::move(condensed.cols);
    return packed;
  }
};

const Register<Format> entry{{
    .name = BitmapTile::kFormat,
    .summary = "COO of 8 x 8 tiles with 64-bit bitmaps (tSparse)",
    .make = [](const Params&) { return std::make_unique<BitmapTileFormat>(); },
}};

/// The tiles of one tile row.
WindowTiles tiles_of_row(const BitmapTile& packed, std::int32_t tile_row) {
  const auto [first, last] = std::ranges::equal_range(packed.tile_row, tile_row);
  return {"tile", kTileSide, first - packed.tile_row.begin(), last - packed.tile_row.begin()};
}

}  // namespace

CsrMatrix BitmapTile::unpack() const {
  const std::int64_t tile_rows = (std::int64_t{rows()} + kTileSide - 1) / kTileSide;
  return unpack_windows(*this, tile_rows, [&](std::int64_t window, auto visit) {
    const WindowTiles tiles = tiles_of_row(*this, static_cast<std::int32_t>(window));
    for (std::int64_t t = tiles.begin; t < tiles.end; ++t) {
      std::int64_t k = value_offset[t];
      for (std::uint64_t rest = bitmap[t]; rest != 0; rest &= rest - 1, ++k) {
        const int bit = std::countr_zero(rest);
        visit(window * kTileSide + bit / kTileSide, tile_col[t] * kTileSide + bit % kTileSide,
              values[k]);
      }
    }
  });
}

std::vector<ArrayInfo> BitmapTile::arrays() const {
  return {array_info("tile_row", tile_row), array_info("tile_col", tile_col),
          array_info("bitmap", bitmap), array_info("value_offset", value_offset),
          array_info("values", values, true)};
}

TileInfo BitmapTile::tiles() const { return {kTileSide, kTileSide, num_tiles(), nnz()}; }

std::string BitmapTile::locate(std::int32_t row) const {
  const int first_bit = row % kTileSide * kTileSide;
  return locate_in_tiles(row, tiles_of_row(*this, row / kTileSide), [&](std::int64_t tile) {
    return (bitmap[tile] >> first_bit & 0xff) != 0;
  });
}

}  // namespace tessera
