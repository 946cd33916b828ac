// BCSR: A cut by a regular grid of r x c blocks, without condensing; the blocks that hold a nonzero
// are stored whole, in compressed sparse block rows. It is the format of SMaT (Okanovic et al., SC
// 2024) and that of cuSPARSE's BSR with row-major blocks.
//
// Blocks at the lower and right edge are padded to r x c like any other. Departure: explicit zeros
// of A, which a block cannot tell from padding, are listed (explicit_zeros.hpp).
#pragma once

#include "formats/format.hpp"

namespace tessera {

struct Bcsr final : PackedMatrix {
  static constexpr const char* kFormat = "bcsr";

  using PackedMatrix::PackedMatrix;

  int block_rows = 0;  // height of a block
  int block_cols = 0;  // width of a block
  // Offset counts blocks. A block's columns begin at block_col * block_cols, block columns ascend
  // in a block row. Cell (row, col) of a block is value (block * block_rows + row) * block_cols +
  // col; padding is +0.
  std::vector<std::uint32_t> block_row_offset;  // [ceil(rows / block_rows) + 1]
  std::vector<std::int32_t> block_col;          // [blocks]
  std::vector<float> values;                    // [blocks * block_rows * block_cols]
  std::vector<std::int64_t> explicit_zeros;     // [explicit zeros of A] ascending places in values

  std::int64_t num_block_rows() const {
    return static_cast<std::int64_t>(block_row_offset.size()) - 1;
  }
  std::int64_t num_blocks() const { return static_cast<std::int64_t>(block_col.size()); }
  std::int64_t cell(std::int64_t block, std::int64_t row, std::int64_t col) const {
    return (block * block_rows + row) * block_cols + col;
  }

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;
  std::string locate(std::int32_t row) const override;
};

}  // namespace tessera
