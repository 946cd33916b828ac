// ME-BCRS (FlashSparse, Shi et al., PPoPP 2025): vectors of 8 x 1 that hold a nonzero, stored
// whole, without the padding of SR-BCRS: a row window's last TC block is only as wide as the
// vectors that are left.
//
// The rows of the last window beyond A are +0. Departure: explicit zeros of A, which a vector
// cannot tell from its other zeros, are listed (explicit_zeros.hpp). The footprint is 4 (windows +
// 1 + vectors (1 + vector_rows)) bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "formats/format.hpp"

namespace tessera {

struct MeBcrs final : PackedMatrix {
  static constexpr const char* kFormat = "me_bcrs";

  /// Adjacent vectors of one window: the values of vector_rows rows, row-major.
  struct TcBlock {
    std::int64_t first_vector;
    int width;  // vectors
  };

  using PackedMatrix::PackedMatrix;

  int vector_rows = 0;                           // height of a vector and of a row window: 8 or 16
  int tile_cols = 0;                             // vectors of a TC block; a window's last has fewer
  std::vector<std::uint32_t> row_window_offset;  // [num_row_windows + 1] first vector of a window
  std::vector<std::int32_t> col_indices;         // [num_vectors] column of A, ascending in a window
  std::vector<float> values;                     // [num_vectors * vector_rows] by window, by TC
                                                 // block, then by row: index cell()
  std::vector<std::int64_t> explicit_zeros;      // [explicit zeros of A] ascending places in values

  std::int64_t num_row_windows() const { return std::ssize(row_window_offset) - 1; }
  std::int64_t num_vectors() const { return std::ssize(col_indices); }
  std::int64_t tc_blocks(std::int64_t window) const {
    const std::int64_t vectors =
        std::int64_t{row_window_offset[window + 1]} - row_window_offset[window];
    return (vectors + tile_cols - 1) / tile_cols;
  }
  /// TC block number `index` of the window, counted from 0.
  TcBlock tc_block(std::int64_t window, std::int64_t index) const {
    const std::int64_t first = row_window_offset[window] + index * tile_cols;
    const std::int64_t left = row_window_offset[window + 1] - first;
    return {first, static_cast<int>(std::min<std::int64_t>(tile_cols, left))};
  }
  std::int64_t cell(const TcBlock& block, int row, int col) const {
    return block.first_vector * vector_rows + std::int64_t{row} * block.width + col;
  }
  /// The number of TC blocks in the windows before this one.
  std::int64_t first_tc_block(std::int64_t window) const;

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;
  std::string locate(std::int32_t row) const override;
};

}  // namespace tessera
