#include "formats/tall_tiles.hpp"

#include <algorithm>

#include "formats/base/registry.hpp"
#include "formats/build_in_parts.hpp"
#include "formats/condense.hpp"
#include "formats/statistics/footprint_formula.hpp"
#include "formats/unpack_parts.hpp"

namespace tessera {
namespace {

constexpr int kWindowRows = TallTiles::kWindowRows;
constexpr int kTileCols = TallTiles::kTileCols;

class TallTilesFormat final : public Format {
 private:
  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    // Every tile holds a nonzero, so offsets of tiles fit when those of nonzeros do.
    limits.require_offset(TallTiles::kFormat, "nonzeros", matrix.nnz());
    return build_in_parts<TallTiles>(matrix, kWindowRows, build_windows);
  }

  static std::unique_ptr<TallTiles> build_windows(const CsrMatrix& matrix) {
    auto packed = std::make_unique<TallTiles>(matrix.rows, matrix.cols, matrix.nnz());
    const Condensed condensed = condense(matrix, kWindowRows);
    const Tiling tiling = tile(matrix, condensed, kTileCols);
    packed->window_offset.assign(tiling.tile_offsets.begin(), tiling.tile_offsets.end());
    packed->tile_offset.assign(tiling.nnz_offsets.begin(), tiling.nnz_offsets.end());
    packed->tile_cols = padded_columns(condensed, tiling, kTileCols);
    packed->places.resize(static_cast<std::size_t>(matrix.nnz()));
    packed->values.resize(static_cast<std::size_t>(matrix.nnz()));
    for_each_cell(matrix, condensed, tiling, kTileCols, [&](const TileCell& cell) {
      packed->places[cell.slot] =
          static_cast<std::uint16_t>(TallTiles::place_of(cell.row, cell.col));
      packed->values[cell.slot] = matrix.values[cell.nonzero];
    });
    return packed;
  }
};

const Register<Format> entry{{
    .name = TallTiles::kFormat,
    .summary = "64 x 64 tiles of condensed columns, two bytes per nonzero (ours)",
    .make = [](const Params&) { return std::make_unique<TallTilesFormat>(); },
}};

const Register<FootprintFormula> footprint{
    footprint_formula(TallTiles::kFormat, [](const MatrixExtents& a) {
      const std::int64_t tiles = a.tiles(kWindowRows, kTileCols);
      const std::int64_t offsets = a.windows(kWindowRows) + 1 + tiles + 1;
      return Footprint{4 * (offsets + kTileCols * tiles) + 2 * a.nnz, 4 * a.nnz};
    })};

/// Visits the nonzeros of a window, for unpack.hpp.
auto nonzeros_of(const TallTiles& a) {
  return [&a](std::int64_t window, auto visit) {
    for (std::int64_t t = a.window_offset[window]; t < a.window_offset[window + 1]; ++t)
      for (std::int64_t k = a.tile_offset[t]; k < a.tile_offset[t + 1]; ++k)
        visit(window * kWindowRows + TallTiles::row_of(a.places[k]),
              a.tile_cols[t * kTileCols + TallTiles::col_of(a.places[k])], a.values[k]);
  };
}

const Register<PartsUnpacker> parts{parts_unpacker<TallTiles>(
    kWindowRows,
    [](const TallTiles& a, std::int64_t window) {
      return std::int64_t{a.tile_offset[a.window_offset[window]]};
    },
    [](const TallTiles& a) { return nonzeros_of(a); })};

}  // namespace

CsrMatrix TallTiles::unpack() const {
  return unpack_windows(*this, num_windows(), nonzeros_of(*this));
}

std::vector<ArrayInfo> TallTiles::arrays() const {
  return {array_info("window_offset", window_offset), array_info("tile_offset", tile_offset),
          array_info("tile_cols", tile_cols), array_info("places", places),
          array_info("values", values, true)};
}

TileInfo TallTiles::tiles() const { return {kWindowRows, kTileCols, num_tiles(), nnz()}; }

std::string TallTiles::locate(std::int32_t row) const {
  const int window = row / kWindowRows, row_in_window = row % kWindowRows;
  return locate_in_tiles(
      row, {"tile", kWindowRows, window_offset[window], window_offset[window + 1]},
      [&](std::int64_t t) {
        return std::any_of(places.begin() + tile_offset[t], places.begin() + tile_offset[t + 1],
                           [&](int place) { return row_of(place) == row_in_window; });
      });
}

}  // namespace tessera
