#include "kernels/spgemm/shared/product_sketch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/bitmap_tile.hpp"
#include "kernels/spgemm/shared/bitmap_tiles.hpp"

namespace tessera::spgemm {
namespace {

std::size_t tiles_across(std::int32_t length) {
  return static_cast<std::size_t>((std::int64_t{length} + kSide - 1) / kSide);
}

/// Sums over sampled tile rows of C.
class Sample {
 public:
  Sample(const TileGrid& a, const TileGrid& b, std::int32_t tile_cols)
      : a_(a), b_(b), cells_(static_cast<std::size_t>(tile_cols), 0) {}

  void add_row(std::int64_t row) {
    for (std::int64_t t = a_.begins[row]; t < a_.begins[row + 1]; ++t) {
      const std::int32_t row_of_b = a_.cols[t];
      for (std::int64_t u = b_.begins[row_of_b]; u < b_.begins[row_of_b + 1]; ++u)
        add_product(a_.bitmaps[t], b_.bitmaps[u], b_.cols[u]);
    }
    for (const std::int32_t col : touched_)
      nonzeros += std::popcount(std::exchange(cells_[col], 0));
    tiles += std::ssize(touched_);
    touched_.clear();
  }

  std::int64_t products = 0, pairs = 0, tiles = 0, nonzeros = 0;

 private:
  void add_product(std::uint64_t a, std::uint64_t b, std::int32_t col) {
    ++products;
    const std::uint64_t cells = multiply_bitmaps(a, b);
    if (cells == 0) return;
    ++pairs;
    if (cells_[col] == 0) touched_.push_back(col);
    cells_[col] |= cells;
  }

  const TileGrid& a_;
  const TileGrid& b_;
  std::vector<std::uint64_t> cells_;  // [tile columns of C] of the current tile row
  std::vector<std::int32_t> touched_;
};

}  // namespace

TileGrid::TileGrid(const CsrMatrix& matrix) {
  const auto format = Registry<Format>::instance().make(BitmapTile::kFormat);
  const auto packed = format->pack(matrix);
  const auto& tiles = packed_as<BitmapTile>(*packed);
  bitmaps = tiles.bitmap;
  cols = tiles.tile_col;
  begins.assign(tiles_across(matrix.rows) + 1, 0);
  for (const std::int32_t row : tiles.tile_row) ++begins[row + 1];
  for (std::size_t row = 1; row < begins.size(); ++row) begins[row] += begins[row - 1];
}

ProductSketch::ProductSketch(const CsrMatrix& a, const CsrMatrix& b)
    : a_(&a), b_(&b), grid_of_a_(a) {
  require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
  if (!b_is_a()) grid_of_b_.emplace(b);
  count();
  estimate();
}

std::int32_t ProductSketch::tile_cols_of_c() const {
  return static_cast<std::int32_t>(tiles_across(b_->cols));
}

void ProductSketch::count() {
  row_products.assign(static_cast<std::size_t>(a_->rows), 0);
  for (std::int32_t row = 0; row < a_->rows; ++row) {
    for (const std::int32_t col : a_->row_cols(row)) row_products[row] += b_->row_length(col);
    products += row_products[row];
    longest_row_of_a = std::max(longest_row_of_a, a_->row_length(row));
  }
  for (const std::int32_t row_of_b : grid_of_a_.cols)
    tile_products += tiles_of_b().row_length(row_of_b);
}

void ProductSketch::estimate() {
  constexpr std::int64_t kMostRows = 1024, kLeastRows = 16, kProducts = 4'000'000;
  constexpr double kGolden = 0.6180339887498949;
  if (tile_products == 0) return;
  const std::int64_t all = grid_of_a_.rows();
  const double share = static_cast<double>(kProducts) / static_cast<double>(tile_products);
  const auto wanted = static_cast<std::int64_t>(std::min(share, 1.0) *
                                                static_cast<double>(std::min(all, kMostRows)));
  const std::int64_t rows = std::min(std::max(wanted, kLeastRows), all);
  Sample sample(grid_of_a_, tiles_of_b(), tile_cols_of_c());
  for (std::int64_t i = 0; i < rows; ++i) {
    // The place within a part varies: matrices can be periodic, too.
    const std::int64_t begin = i * all / rows, end = (i + 1) * all / rows;
    const double place = std::fmod(kGolden * static_cast<double>(i), 1.0);
    sample.add_row(begin + static_cast<std::int64_t>(place * static_cast<double>(end - begin)));
  }
  if (sample.products == 0)  // the tile rows that have products lie between the sampled ones
    for (std::int64_t row = 0; row < all && sample.products == 0; ++row) sample.add_row(row);
  const double scale = static_cast<double>(tile_products) / static_cast<double>(sample.products);
  pairs = scale * static_cast<double>(sample.pairs);
  tiles_of_c = scale * static_cast<double>(sample.tiles);
  nonzeros_of_c = scale * static_cast<double>(sample.nonzeros);
}

}  // namespace tessera::spgemm
