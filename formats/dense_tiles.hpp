// A as a dense matrix, in tiles for asynchronous MMAs that read their right operand from shared
// memory (wgmma, PTX ISA "Shared Memory Matrix Layout", K-major without swizzle).
//
// A tile is 64 rows by 8 columns: the rows of eight core matrices, each of which has eight rows of
// 16 bytes. For matrices of which a large share is nonzero; everything else grows too much.
#pragma once

#include "formats/base/params.hpp"
#include "formats/format.hpp"

namespace tessera {

struct DenseTiles final : PackedMatrix {
  static constexpr const char* kFormat = "dense_tiles";
  static constexpr int kTileRows = 64;
  static constexpr int kTileCols = 8;
  static constexpr int kColsMultiple = 64;  // columns are padded to a multiple
  static constexpr int kCoreRows = 8;       // of a core matrix, which has four columns
  /// With more places for each nonzero, kernels that skip zeros are faster: plans refuse such an A.
  static constexpr std::int64_t kWorthwhileGrowth = 20;

  using PackedMatrix::PackedMatrix;

  std::vector<float> values;                 // [tiles * 512]; padding is +0
  std::vector<std::int64_t> explicit_zeros;  // [explicit zeros of A] ascending places in values

  std::int64_t row_tiles() const { return row_tiles_of(rows()); }
  /// Tiles side by side.
  std::int64_t col_tiles() const { return col_tiles_of(cols()); }
  static constexpr std::int64_t row_tiles_of(std::int64_t rows) {
    return (rows + kTileRows - 1) / kTileRows;
  }
  static constexpr std::int64_t col_tiles_of(std::int64_t cols) {
    return (cols + kColsMultiple - 1) / kColsMultiple * (kColsMultiple / kTileCols);
  }
  /// Values of a matrix of that size, padding included.
  static constexpr std::int64_t places(std::int64_t rows, std::int64_t cols) {
    return row_tiles_of(rows) * col_tiles_of(cols) * (kTileRows * kTileCols);
  }
  /// The place in `values` of a cell of A whose columns take `col_tiles` tiles: tiles of the same
  /// rows follow each other, in a tile its rows by eights, of those the columns by fours.
  static constexpr std::int64_t cell(std::int64_t row, std::int64_t col, std::int64_t col_tiles) {
    return (row / kTileRows * col_tiles + col / kTileCols) * (kTileRows * kTileCols) +
           row % kTileRows / kCoreRows * (kCoreRows * kTileCols) + col % kTileCols / 4 * 32 +
           row % kCoreRows * 4 + col % 4;
  }

  /// The parameter "growth": places for each nonzero.
  static ParamSpec growth_param();
  /// Throws Unsupported for a matrix that is too sparse for `growth`, or too large.
  static void require_room(std::int64_t rows, std::int64_t cols, std::int64_t nnz,
                           std::int64_t growth, const PackLimits& limits);

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;
  std::string locate(std::int32_t row) const override;
};

}  // namespace tessera
