// A sketch of C = A B, all three sparse, that costs far less than the product: what kernels count
// their work from when one of them is to be chosen (SpgemmKernel::count_work).
//
// Time and memory are O(nonzeros of A and B), plus at most about four million products of tiles.
// Tiles are tSparse's, 8 x 8 with a bitmap (kernels/spgemm/shared/bitmap_tiles.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera::spgemm {

/// The pattern of a matrix as tiles by tile row, without values.
struct TileGrid {
  explicit TileGrid(const CsrMatrix& matrix);

  std::int64_t rows() const { return std::ssize(begins) - 1; }  // tile rows
  std::int64_t count() const { return begins.back(); }          // tiles
  std::int64_t row_length(std::int64_t row) const { return begins[row + 1] - begins[row]; }
  /// The tile columns of the tiles of a tile row, ascending.
  std::span<const std::int32_t> row_cols(std::int64_t row) const {
    return std::span(cols).subspan(begins[row], row_length(row));
  }

  std::vector<std::uint64_t> bitmaps;  // [tiles] bit 8 row + col
  std::vector<std::int32_t> cols;      // [tiles]
  std::vector<std::int64_t> begins;    // [tile rows + 1] first tile of a tile row
};

class ProductSketch {
 public:
  /// A and B have to outlive the sketch. B is taken to be A where both are the same object. Throws
  /// an Error when A's columns and B's rows differ in number.
  ProductSketch(const CsrMatrix& a, const CsrMatrix& b);

  const CsrMatrix& a() const { return *a_; }
  const CsrMatrix& b() const { return *b_; }
  bool b_is_a() const { return a_ == b_; }
  const TileGrid& tiles_of_a() const { return grid_of_a_; }
  const TileGrid& tiles_of_b() const { return grid_of_b_ ? *grid_of_b_ : grid_of_a_; }
  std::int32_t tile_cols_of_c() const;

  // Exact.
  std::int64_t products = 0;               // of a nonzero of A and a nonzero of B
  std::vector<std::int64_t> row_products;  // [rows of A] the same by row of C
  std::int64_t longest_row_of_a = 0;       // nonzeros
  std::int64_t tile_products = 0;          // of a tile of A and a tile of B

  // Estimated from some of C's tile rows, one from each part of C, in proportion to their share of
  // all tile products. Exact where all tile rows are sampled.
  double pairs = 0;          // tile products that have a nonzero
  double tiles_of_c = 0;     // that are not empty
  double nonzeros_of_c = 0;  // structural

 private:
  void count();
  void estimate();

  const CsrMatrix* a_;
  const CsrMatrix* b_;
  TileGrid grid_of_a_;
  std::optional<TileGrid> grid_of_b_;
};

}  // namespace tessera::spgemm
