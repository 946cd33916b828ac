#include "formats/mosaic.hpp"

#include "formats/base/registry.hpp"
#include "formats/build_in_parts.hpp"
#include "formats/condense.hpp"
#include "formats/statistics/footprint_formula.hpp"
#include "formats/unpack_parts.hpp"

namespace tessera {
namespace {

constexpr int kWindowRows = Mosaic::kWindowRows;
constexpr int kTileCols = Mosaic::kTileCols;
constexpr int kTileCells = kWindowRows * kTileCols;

class MosaicFormat final : public Format {
 public:
  int version() const override { return 4; }

 private:
  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    // Every tile holds a nonzero, so offsets of tiles fit when those of nonzeros do.
    limits.require_offset(Mosaic::kFormat, "nonzeros", matrix.nnz());
    return build_in_parts<Mosaic>(matrix, kWindowRows, build_windows);
  }

  static std::unique_ptr<Mosaic> build_windows(const CsrMatrix& matrix) {
    auto packed = std::make_unique<Mosaic>(matrix.rows, matrix.cols, matrix.nnz());
    const Condensed condensed = condense(matrix, kWindowRows);
    const Tiling tiling = tile(matrix, condensed, kTileCols);
    packed->window_offset.assign(tiling.tile_offsets.begin(), tiling.tile_offsets.end());
    packed->tile_offset.assign(tiling.nnz_offsets.begin(), tiling.nnz_offsets.end());
    packed->tile_cols = padded_columns(condensed, tiling, kTileCols);
    packed->bitmaps.resize(static_cast<std::size_t>(tiling.tiles()));
    packed->values.resize(static_cast<std::size_t>(matrix.nnz()));
    for_each_cell(matrix, condensed, tiling, kTileCols, [&](const TileCell& cell) {
      const int bit = Mosaic::bit_of(cell.row, cell.col);
      packed->bitmaps[cell.tile].words[bit / 64] |= std::uint64_t{1} << bit % 64;
    });
    for_each_cell(matrix, condensed, tiling, kTileCols, [&](const TileCell& cell) {
      const int rank = packed->bitmaps[cell.tile].rank(Mosaic::bit_of(cell.row, cell.col));
      packed->values[packed->tile_offset[cell.tile] + rank] = matrix.values[cell.nonzero];
    });
    return packed;
  }
};

const Register<Format> entry{{
    .name = Mosaic::kFormat,
    .summary = "16 x 8 tiles of condensed columns, bitmaps in the order of lanes (ours)",
    .make = [](const Params&) { return std::make_unique<MosaicFormat>(); },
}};

const Register<FootprintFormula> footprint{
    footprint_formula(Mosaic::kFormat, [](const MatrixExtents& a) {
      const std::int64_t tiles = a.tiles(kWindowRows, kTileCols);
      return Footprint{4 * (a.windows(kWindowRows) + 1) + 4 * (tiles + 1) + 48 * tiles, 4 * a.nnz};
    })};

/// Visits the nonzeros of a window, for unpack.hpp. Of a row's cells, those of lower columns have
/// lower bits.
auto nonzeros_of(const Mosaic& a) {
  return [&a](std::int64_t window, auto visit) {
    for (std::int64_t t = a.window_offset[window]; t < a.window_offset[window + 1]; ++t) {
      std::int64_t k = a.tile_offset[t];
      for (int word = 0; word < 2; ++word) {
        for (std::uint64_t rest = a.bitmaps[t].words[word]; rest != 0; rest &= rest - 1, ++k) {
          const int bit = 64 * word + std::countr_zero(rest);
          visit(window * kWindowRows + Mosaic::row_of(bit),
                a.tile_cols[t * kTileCols + Mosaic::col_of(bit)], a.values[k]);
        }
      }
    }
  };
}

const Register<PartsUnpacker> parts{parts_unpacker<Mosaic>(
    kWindowRows,
    [](const Mosaic& a, std::int64_t window) {
      return std::int64_t{a.tile_offset[a.window_offset[window]]};
    },
    [](const Mosaic& a) { return nonzeros_of(a); })};

}  // namespace

std::unique_ptr<MeTcf> to_me_tcf(const Mosaic& a) {
  auto tiles = std::make_unique<MeTcf>(a.rows(), a.cols(), a.nnz());
  tiles->window_rows = kWindowRows;
  tiles->row_window_offset = a.window_offset;
  tiles->tc_offset = a.tile_offset;
  tiles->sparse_a_to_b = a.tile_cols;
  tiles->tc_local_id.reserve(a.values.size());
  tiles->values.reserve(a.values.size());
  // ME-TCF orders the nonzeros of a tile by row, then by column.
  for (std::int64_t t = 0; t < a.num_tiles(); ++t) {
    for (int id = 0; id < kTileCells; ++id) {
      const int bit = Mosaic::bit_of(id / kTileCols, id % kTileCols);
      if (!a.bitmaps[t].has(bit)) continue;
      tiles->tc_local_id.push_back(static_cast<std::uint8_t>(id));
      tiles->values.push_back(a.values[a.tile_offset[t] + a.bitmaps[t].rank(bit)]);
    }
  }
  return tiles;
}

CsrMatrix Mosaic::unpack() const {
  return unpack_windows(*this, num_windows(), nonzeros_of(*this));
}

std::vector<ArrayInfo> Mosaic::arrays() const {
  return {array_info("window_offset", window_offset), array_info("tile_offset", tile_offset),
          array_info("tile_cols", tile_cols), array_info("bitmaps", bitmaps),
          array_info("values", values, true)};
}

TileInfo Mosaic::tiles() const { return {kWindowRows, kTileCols, num_tiles(), nnz()}; }

std::string Mosaic::locate(std::int32_t row) const {
  const int window = row / kWindowRows;
  return locate_in_tiles(row,
                         {"tile", kWindowRows, window_offset[window], window_offset[window + 1]},
                         [&](std::int64_t t) {
                           for (int col = 0; col < kTileCols; ++col)
                             if (bitmaps[t].has(bit_of(row % kWindowRows, col))) return true;
                           return false;
                         });
}

}  // namespace tessera
