#include "formats/dense_tiles.hpp"

#include "formats/base/registry.hpp"
#include "formats/explicit_zeros.hpp"
#include "formats/unpack.hpp"

namespace tessera {
namespace {

class DenseTilesFormat final : public Format {
 public:
  explicit DenseTilesFormat(std::int64_t growth) : growth_(growth) {}

  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    DenseTiles::require_room(matrix.rows, matrix.cols, matrix.nnz(), growth_, limits);
    auto packed = std::make_unique<DenseTiles>(matrix.rows, matrix.cols, matrix.nnz());
    const std::int64_t col_tiles = packed->col_tiles();
    packed->values.resize(static_cast<std::size_t>(DenseTiles::places(matrix.rows, matrix.cols)));
    ExplicitZeros zeros(matrix);
    parallel_for(matrix.rows, DenseTiles::kTileRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t k = matrix.row_offsets[row]; k < matrix.row_offsets[row + 1]; ++k) {
          const std::int64_t cell = DenseTiles::cell(row, matrix.col_indices[k], col_tiles);
          packed->values[cell] = matrix.values[k];
          if (matrix.values[k] == 0) zeros.place(k, cell);
        }
      }
    });
    packed->explicit_zeros = zeros.take_cells();
    return packed;
  }

 private:
  std::int64_t growth_;
};

const Register<Format> entry{{
    .name = DenseTiles::kFormat,
    .summary = "all of A, zeros too, in tiles for wgmma (ours)",
    .params = {DenseTiles::growth_param()},
    .make =
        [](const Params& params) {
          return std::make_unique<DenseTilesFormat>(params.integer("growth"));
        },
}};

}  // namespace

ParamSpec DenseTiles::growth_param() {
  return {
      "growth",
      std::int64_t{0},
      "places for values, at most, for each nonzero of A; a sparser A is refused; 0: any number",
      {},
      0,
      1 << 30};
}

void DenseTiles::require_room(std::int64_t rows, std::int64_t cols, std::int64_t nnz,
                              std::int64_t growth, const PackLimits& limits) {
  const std::int64_t tiles = row_tiles_of(rows) * col_tiles_of(cols);
  const double places = static_cast<double>(tiles) * (kTileRows * kTileCols);
  require<Unsupported>(
      growth == 0 || places <= static_cast<double>(growth) * static_cast<double>(nnz),
      "{} would have {:.3g} places for the {} nonzeros of A, more than growth = {} "
      "for each",
      kFormat, places, nnz, growth);
  limits.require_bytes(kFormat, sizeof(float) * places);
}

CsrMatrix DenseTiles::unpack() const {
  const std::int64_t tiles = col_tiles();
  return unpack_windows(*this, row_tiles(), [&](std::int64_t tile, auto visit) {
    const std::int64_t end = std::min<std::int64_t>((tile + 1) * kTileRows, rows());
    for (std::int64_t row = tile * kTileRows; row < end; ++row)
      for (std::int32_t col = 0; col < cols(); ++col)
        if (holds_nonzero(values, explicit_zeros, cell(row, col, tiles)))
          visit(row, col, values[cell(row, col, tiles)]);
  });
}

std::vector<ArrayInfo> DenseTiles::arrays() const {
  std::vector<ArrayInfo> arrays{array_info("values", values, true)};
  if (!explicit_zeros.empty()) arrays.push_back(array_info("explicit_zeros", explicit_zeros));
  return arrays;
}

TileInfo DenseTiles::tiles() const {
  return {kTileRows, kTileCols, row_tiles() * col_tiles(), std::ssize(values)};
}

std::string DenseTiles::locate(std::int32_t row) const {
  const std::int64_t tile = row / kTileRows;
  return locate_in_tiles(row, {"tile", kTileRows, tile * col_tiles(), (tile + 1) * col_tiles()},
                         [&](std::int64_t one) {
                           const std::int64_t first = one % col_tiles() * kTileCols;
                           for (std::int64_t col = first;
                                col < std::min<std::int64_t>(first + kTileCols, cols()); ++col)
                             if (holds_nonzero(values, explicit_zeros, cell(row, col, col_tiles())))
                               return true;
                           return false;
                         });
}

}  // namespace tessera
