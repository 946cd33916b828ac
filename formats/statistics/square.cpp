#include "formats/statistics/square.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/scratch_pool.hpp"
#include "formats/condense.hpp"

namespace tessera {
namespace {

constexpr int kTile = 8;
constexpr std::int64_t kTileRowGrain = 64;

/// The set of indices below a limit that were added since the last clear().
class Seen {
 public:
  void reserve(std::int64_t limit) { last_.resize(static_cast<std::size_t>(limit), 0); }
  void clear() { ++now_; }
  /// Adds the index; true when it was not in the set.
  bool add(std::int32_t index) { return std::exchange(last_[index], now_) != now_; }

 private:
  std::vector<std::uint32_t> last_;  // [limit] the round each was last seen in
  std::uint32_t now_ = 0;
};

struct Scratch {
  Seen cols, tiles;
};

/// The tiles of A, and for each tile a bit per column and per row that holds a nonzero.
struct TileMasks {
  Condensed tiles;                 // tile columns in the place of active columns
  std::vector<std::uint8_t> cols;  // [tiles]
  std::vector<std::uint8_t> rows;  // [tiles]
};

TileMasks tile_masks(const CsrMatrix& matrix) {
  TileMasks masks{condense(matrix, kTile, kTile), {}, {}};
  masks.cols.resize(masks.tiles.cols.size());
  masks.rows.resize(masks.tiles.cols.size());
  for (std::int64_t row = 0; row < matrix.rows; ++row)
    for (std::int64_t k = matrix.row_offsets[row]; k < matrix.row_offsets[row + 1]; ++k) {
      const std::int64_t tile = masks.tiles.offsets[row / kTile] + masks.tiles.places[k];
      masks.cols[tile] |= static_cast<std::uint8_t>(1 << matrix.col_indices[k] % kTile);
      masks.rows[tile] |= static_cast<std::uint8_t>(1 << row % kTile);
    }
  return masks;
}

/// The number of products of a tile in this tile row with a tile of the tile row that it points to.
std::int64_t tile_products(const TileMasks& masks, std::int64_t tile_row) {
  std::int64_t products = 0;
  const auto& offsets = masks.tiles.offsets;
  for (std::int64_t t = offsets[tile_row]; t < offsets[tile_row + 1]; ++t) {
    const std::int64_t partners = masks.tiles.cols[t];
    for (std::int64_t u = offsets[partners]; u < offsets[partners + 1]; ++u)
      products += (masks.cols[t] & masks.rows[u]) != 0 ? 1 : 0;
  }
  return products;
}

/// The counts of the rows of one tile row, without tile products.
SquareCount count_rows(const CsrMatrix& matrix, std::int64_t tile_row, Scratch& scratch) {
  SquareCount count;
  scratch.tiles.clear();
  const std::int64_t end = std::min<std::int64_t>(matrix.rows, (tile_row + 1) * kTile);
  for (std::int64_t row = tile_row * kTile; row < end; ++row) {
    scratch.cols.clear();
    for (const std::int32_t k : matrix.row_cols(row)) {
      count.products += matrix.row_length(k);
      for (const std::int32_t col : matrix.row_cols(k)) {
        if (!scratch.cols.add(col)) continue;
        ++count.nnz;
        if (scratch.tiles.add(col / kTile)) ++count.tiles;
      }
    }
  }
  return count;
}

}  // namespace

SquareCount count_square(const CsrMatrix& matrix) {
  require(matrix.rows == matrix.cols, "only a square matrix has a square, not one of {} x {}",
          matrix.rows, matrix.cols);
  const TileMasks masks = tile_masks(matrix);
  std::atomic<std::int64_t> products = 0, nnz = 0, tile_pairs = 0, tiles = 0;
  ScratchPool<Scratch> pool;
  parallel_for(masks.tiles.windows(), kTileRowGrain, [&](std::int64_t begin, std::int64_t end) {
    pool.use([&](Scratch& scratch) {
      scratch.cols.reserve(matrix.cols);
      scratch.tiles.reserve(matrix.cols / kTile + 1);
      for (std::int64_t tile_row = begin; tile_row < end; ++tile_row) {
        const SquareCount found = count_rows(matrix, tile_row, scratch);
        products += found.products;
        nnz += found.nnz;
        tiles += found.tiles;
        tile_pairs += tile_products(masks, tile_row);
      }
    });
  });
  return {products, nnz, tile_pairs, tiles};
}

}  // namespace tessera
