// The tiles into which smat cuts A; its host half and its device half share them.
//
// A block of BCSR is cut, or padded, into tiles of 8 or 16 rows x 16 columns, the 16 x 8 operands
// of one or two MMAs m16n8k16 (operands are swapped, C^T = B^T A^T, so that a tile has 8 rows where
// blocks have no more). A strip is 8 or 16 rows of C, with the tiles of a block row that lie in
// them; its tiles follow each other in the order of their columns.
//
// Departure from SMaT: a tile records its columns with a nonzero, and the kernel does not read the
// other rows of B. Tiles without a nonzero are left out. `read_padding` undoes both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/bcsr.hpp"
#include "kernels/spmm/smat/schedule.hpp"
#include "kernels/tensor_core/number_format.hpp"

namespace tessera::smat {

struct Tile {
  std::int64_t first_cell;  // in Bcsr::values
  std::int32_t b_row;       // the row of B of its first column
  std::uint32_t cols;       // bit k: row b_row + k of B is read
  std::int16_t num_rows;    // of the block that are within the tile, at most its height
  std::int16_t num_cols;
};

class Tiles {
 public:
  Tiles(const Bcsr& a, bool read_padding);

  int height() const { return height_; }  // 8 or 16
  std::int64_t num_strips() const { return static_cast<std::int64_t>(strip_offset_.size()) - 1; }
  std::span<const std::int64_t> strip_offset() const { return strip_offset_; }  // [strips + 1]
  std::span<const Tile> all() const { return tiles_; }                          // [tiles]
  std::span<const Tile> of_strip(std::int64_t strip) const {
    return all().subspan(strip_offset_[strip], strip_offset_[strip + 1] - strip_offset_[strip]);
  }

  /// The first row of C of a strip, and the number of its rows; 0 where the block row ends before.
  std::int64_t first_row(std::int64_t strip) const {
    return first_row_of_strip(strip, strips_per_row_, a_.block_rows, height_);
  }
  int num_rows(std::int64_t strip) const;
  std::int64_t strips_per_block_row() const { return strips_per_row_; }

  /// The value of a cell of a tile; zero where the block has no such cell.
  float cell(const Tile& tile, int row, int col) const {
    if (row >= tile.num_rows || col >= tile.num_cols) return 0;
    return a_.values[tile.first_cell + std::int64_t{row} * a_.block_cols + col];
  }

  /// The cells of all tiles, row-major. [tiles * height * 16]
  std::vector<float> cells() const;

  /// The cells of all tiles as 16-bit operands in the order of an MMA's registers: word w of the
  /// lane 4g + t for rows 8p to 8p + 7 of a tile holds columns 2t + 8w and 2t + 8w + 1 of row 8p +
  /// g. [tiles * 32 lanes * height / 8 * 2]
  std::vector<std::uint32_t> fragments(Conversion conversion) const;

 private:
  Tile tile(std::int64_t block, std::int64_t strip, std::int64_t chunk, bool read_padding) const;
  std::uint32_t cols_with_nonzeros(const Tile& tile) const;
  /// Writes the cells of the block to a tile [height * 16] of zeros.
  void copy_cells(const Tile& tile, float* cells) const;

  const Bcsr& a_;
  int height_;
  std::int64_t strips_per_row_;  // of a block row
  std::vector<std::int64_t> strip_offset_;
  std::vector<Tile> tiles_;
};

}  // namespace tessera::smat
