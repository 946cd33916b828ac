// Blocked-ELL, as cuSPARSE's cusparseCreateBlockedEll takes it: A cut by a regular grid of b x b
// blocks, without condensing; every block row has room for as many blocks as the fullest one, and
// those that hold a nonzero are packed left.
//
// Rows and columns are rounded up to whole blocks: padded_rows() and padded_cols() are the sizes
// for cuSPARSE, for B and for C. Unused places have the block column kNoColumn, cuSPARSE's -1 for
// an empty block; they count as tiles, since they take the room of one.
// The order of the values is that of NVIDIA's sample dense2sparse_blockedell. Departure: explicit
// zeros of A, which a block cannot tell from padding, are listed (explicit_zeros.hpp).
#pragma once

#include "formats/format.hpp"

namespace tessera {

struct BlockedEll final : PackedMatrix {
  static constexpr const char* kFormat = "blocked_ell";

  using PackedMatrix::PackedMatrix;

  int block = 0;                // side of a block
  std::int64_t ell_blocks = 0;  // places in a block row; cuSPARSE's ellCols is ell_cols()
  // Place p of a block row is columns [p * block, (p + 1) * block) of its rows of `values`, which
  // are row-major with ell_cols() columns; padding is +0. Block columns ascend in a block row, the
  // empty places follow.
  std::vector<std::int32_t> block_col;       // [block_rows * ell_blocks] or kNoColumn
  std::vector<float> values;                 // [padded_rows() * ell_cols()]
  std::vector<std::int64_t> explicit_zeros;  // [explicit zeros of A] ascending places in values

  std::int64_t num_block_rows() const { return (std::int64_t{rows()} + block - 1) / block; }
  std::int64_t ell_cols() const { return ell_blocks * block; }
  std::int64_t padded_rows() const { return num_block_rows() * block; }
  std::int64_t padded_cols() const { return (std::int64_t{cols()} + block - 1) / block * block; }
  /// The index into `values` of row `row` of A and column `col` of the block at `place` in the
  /// row's block row.
  std::int64_t cell(std::int64_t row, std::int64_t place, std::int64_t col) const {
    return row * ell_cols() + place * block + col;
  }

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;
  std::string locate(std::int32_t row) const override;
};

}  // namespace tessera
