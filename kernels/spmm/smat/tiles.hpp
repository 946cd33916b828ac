// How smat cuts A up; its host and its device half both go by this.
//
// A block of BCSR is cut, or padded, into pieces of 8 or 16 rows x 16 columns: what one or two MMAs
// m16n8k16 take as their 16 x 8 operands (operands are swapped, C^T = B^T A^T, so that a piece has
// 8 rows where blocks have no more). A strip is the pieces above one another in a block row, that
// is 8 or 16 rows of C; its pieces follow each other in the order of their columns.
//
// Departure from SMaT: which columns of a piece hold a nonzero is remembered, and the other rows of
// B are not read. Pieces of a block without any nonzero are left out. `read_padding` undoes both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/bcsr.hpp"
#include "kernels/tensor_core/number_format.hpp"

namespace tessera::smat {

constexpr int kDepth = 16;                              // columns of a piece
constexpr int kMmaRows = 8;                             // rows of A that an MMA takes
constexpr int kLaneWords = kDepth * kMmaRows / 2 / 32;  // of a fragment of 16-bit values

struct Piece {
  std::int64_t first_cell;  // of Bcsr::values
  std::int32_t b_row;       // the row of B that its first column meets
  std::uint32_t cols;       // bit k: row b_row + k of B is read
  std::int16_t num_rows;    // of the block that are within the piece, at most its height
  std::int16_t num_cols;
};

class Pieces {
 public:
  Pieces(const Bcsr& a, bool read_padding);

  int height() const { return height_; }  // 8 or 16
  std::int64_t num_strips() const { return static_cast<std::int64_t>(strip_offset_.size()) - 1; }
  std::span<const std::int64_t> strip_offset() const { return strip_offset_; }  // [strips + 1]
  std::span<const Piece> all() const { return pieces_; }                        // [pieces]
  std::span<const Piece> of_strip(std::int64_t strip) const {
    return all().subspan(strip_offset_[strip], strip_offset_[strip + 1] - strip_offset_[strip]);
  }

  /// Rows of C: the first, and how many; none where the block row ends before.
  std::int64_t first_row(std::int64_t strip) const {
    return strip / strips_per_row_ * a_.block_rows + strip % strips_per_row_ * height_;
  }
  int num_rows(std::int64_t strip) const;
  /// The strip that holds a row of C, and its place there.
  std::int64_t strip_of(std::int64_t row) const {
    return row / a_.block_rows * strips_per_row_ + row % a_.block_rows / height_;
  }
  int row_in_strip(std::int64_t row) const {
    return static_cast<int>(row % a_.block_rows % height_);
  }
  std::int64_t strips_per_block_row() const { return strips_per_row_; }

  /// Zero where the block has no such cell.
  float cell(const Piece& piece, int row, int col) const {
    if (row >= piece.num_rows || col >= piece.num_cols) return 0;
    return a_.values[piece.first_cell + std::int64_t{row} * a_.block_cols + col];
  }

  /// Row-major. [pieces * height * 16]
  std::vector<float> cells() const;

  /// In the order of an MMA's registers: word w of the lane 4g + t for rows 8p to 8p + 7 of a piece
  /// holds columns 2t + 8w and 2t + 8w + 1 of row 8p + g. [pieces * 32 lanes * height / 8 * 2]
  std::vector<std::uint32_t> fragments(Conversion conversion) const;

 private:
  Piece piece(std::int64_t block, std::int64_t strip, std::int64_t chunk, bool read_padding) const;
  std::uint32_t cols_with_nonzeros(const Piece& piece) const;

  const Bcsr& a_;
  int height_;
  std::int64_t strips_per_row_;  // of a block row
  std::vector<std::int64_t> strip_offset_;
  std::vector<Piece> pieces_;
};

}  // namespace tessera::smat
