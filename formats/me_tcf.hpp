// ME-TCF (DTC-SpMM, Fan et al., ASPLOS 2024): row windows with condensed columns in TC blocks eight
// wide; one byte per nonzero gives its position in its TC block.
//
// The published windows are 16 rows high; windows of 8 give tiles of BitTCF's size. Departure: the
// unused columns of a window's last TC block hold kNoColumn, as in BitTCF, so that no unrelated row
// of B is read. The footprint is 4 (windows + 2 + 9 TC blocks) + 5 nnz bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/bit_tcf.hpp"
#include "formats/format.hpp"

namespace tessera {

struct MeTcf final : PackedMatrix {
  static constexpr const char* kFormat = "me_tcf";
  static constexpr int kTileCols = 8;

  using PackedMatrix::PackedMatrix;

  int window_rows = 0;                           // height of a row window: 8 or 16
  std::vector<std::uint32_t> row_window_offset;  // [num_row_windows + 1] first TC block of a window
  std::vector<std::uint32_t> tc_offset;          // [num_tc_blocks + 1] first nonzero of a TC block
  std::vector<std::int32_t> sparse_a_to_b;       // [num_tc_blocks * 8] column of A, or kNoColumn
  std::vector<std::uint8_t> tc_local_id;         // [nnz] 8 * row + condensed column, ascending in a
                                                 // TC block
  std::vector<float> values;                     // [nnz] in the same order

  std::int64_t num_row_windows() const { return std::ssize(row_window_offset) - 1; }
  std::int64_t num_tc_blocks() const { return std::ssize(tc_offset) - 1; }

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;
  std::string locate(std::int32_t row) const override;
};

/// The same TC blocks with a bitmap per block instead of a byte per nonzero. Throws an Error for
/// windows of 16 rows.
std::unique_ptr<BitTcf> to_bit_tcf(const MeTcf& a);

}  // namespace tessera
