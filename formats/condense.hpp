// Condensing: the columns of a row window that hold a nonzero, packed left. Every condensed format
// is built from it, and with groups of columns every blocked format.
//
// Sources: SGT, TC-GNN (Wang et al., ATC 2023); ActiveColIdx, cuTeSpMM section 3.2; Acc-SpMM 3.3.
// The paper codes sort the columns of a window. Here they are marked in a bitmap of three levels
// and read off in order, which costs a few operations a nonzero at any window height.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/parallel.hpp"
#include "formats/format.hpp"

namespace tessera {

/// Division of column numbers by a width that is usually a power of two.
class Divisor {
 public:
  explicit Divisor(int width) : width_(static_cast<std::uint32_t>(width)) {
    if (std::has_single_bit(width_)) shift_ = std::countr_zero(width_);
  }
  std::uint32_t quotient(std::int32_t col) const {
    const auto index = static_cast<std::uint32_t>(col);
    return shift_ >= 0 ? index >> shift_ : index / width_;
  }

 private:
  std::uint32_t width_;
  int shift_ = -1;
};

/// Row windows, each with its active columns, or with its active groups of adjacent columns for
/// formats that keep whole blocks: group g starts at column g * group_cols.
struct Condensed {
  int height = 0;
  int group_cols = 1;
  std::vector<std::int64_t> offsets;  // [windows + 1] first active column of a window
  std::vector<std::int32_t> cols;     // [offsets.back()] column or group, ascending in a window
  std::vector<std::int32_t> places;   // [nnz] position of a nonzero's column in its window, from 0

  std::int64_t windows() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t active_cols(std::int64_t window) const {
    return offsets[window + 1] - offsets[window];
  }
};

/// Condenses windows of `height` rows. Throws an Error unless height and group_cols are positive.
/// Parallel; scratch memory of an eighth of a bit per column and thread, twice that for the places.
Condensed condense(const CsrMatrix& matrix, int height, int group_cols = 1);

/// The same windows cut into tiles `width` active columns wide, and the nonzeros of each tile.
struct Tiling {
  std::vector<std::int64_t> tile_offsets;  // [windows + 1] first tile of a window
  std::vector<std::int64_t> nnz_offsets;   // [tiles + 1] first nonzero of a tile, tiles in order

  std::int64_t tiles() const { return tile_offsets.back(); }
};

Tiling tile(const CsrMatrix& matrix, const Condensed& condensed, int width);

/// Tiling::tile_offsets alone, without reading the nonzeros. [windows + 1]
std::vector<std::int64_t> tile_offsets(const Condensed& condensed, int width);

/// The column at every position of every tile, kNoColumn in the unused positions of a window's last
/// tile. [tiles * width]
std::vector<std::int32_t> padded_columns(const Condensed& condensed,
                                         const std::vector<std::int64_t>& tile_offsets, int width);
inline std::vector<std::int32_t> padded_columns(const Condensed& condensed, const Tiling& tiling,
                                                int width) {
  return padded_columns(condensed, tiling.tile_offsets, width);
}

/// A nonzero in its tile.
struct TileCell {
  std::int64_t window;
  std::int64_t tile;
  std::int64_t slot;     // among all nonzeros, in order of tile, row and column
  int row;               // in the tile
  int col;               // in the tile, of width * group_cols
  std::int64_t nonzero;  // in CSR order
};

/// Windows per chunk of a parallel loop; a chunk takes tens of microseconds.
constexpr std::int64_t kWindowGrain = 256;

/// Calls visit(TileCell) for every nonzero, windows in parallel, the nonzeros of a tile by row and
/// then by column.
template <class Visit>
void for_each_cell(const CsrMatrix& matrix, const Condensed& condensed, const Tiling& tiling,
                   int width, Visit visit) {
  const Divisor divisor(width), group(condensed.group_cols);
  // A tile's columns follow each other; with groups, each group takes group_cols columns.
  const auto tile_col = [&](int place, std::int32_t col) {
    if (condensed.group_cols == 1) return place;
    const auto first = static_cast<std::int32_t>(group.quotient(col)) * condensed.group_cols;
    return place * condensed.group_cols + (col - first);
  };
  parallel_for(condensed.windows(), kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> next;
    for (std::int64_t window = begin; window < end; ++window) {
      const std::int64_t first_tile = tiling.tile_offsets[window];
      next.assign(tiling.nnz_offsets.begin() + first_tile,
                  tiling.nnz_offsets.begin() + tiling.tile_offsets[window + 1]);
      const std::int64_t first_row = window * condensed.height;
      const std::int64_t rows = std::min<std::int64_t>(condensed.height, matrix.rows - first_row);
      for (int r = 0; r < rows; ++r) {
        const std::int64_t row_end = matrix.row_offsets[first_row + r + 1];
        for (std::int64_t k = matrix.row_offsets[first_row + r]; k < row_end; ++k) {
          const std::int32_t place = condensed.places[k];
          const auto local = static_cast<std::int32_t>(divisor.quotient(place));
          visit(TileCell{window, first_tile + local, next[local]++, r,
                         tile_col(place - local * width, matrix.col_indices[k]), k});
        }
      }
    }
  });
}

}  // namespace tessera
