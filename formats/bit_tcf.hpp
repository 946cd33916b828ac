// BitTCF (Acc-SpMM, section 3.3): 8-row windows, columns condensed per window, and each 8 x 8 tile
// (TC block) described by one 64-bit bitmap; only nonzeros are stored.
//
// Departures from the paper: the unused columns of a window's last TC block hold kNoColumn instead
// of some valid index, so that a kernel can skip the load and a NaN or Inf in an unrelated row of B
// cannot reach C; explicit zeros of A are nonzeros like any other.
#pragma once

#include <bit>
#include <cstdint>
#include <tuple>
#include <vector>

#include "formats/format.hpp"

namespace tessera {

struct BitTcf final : PackedMatrix {
  static constexpr const char* kFormat = "bit_tcf";
  static constexpr int kTileRows = 8;
  static constexpr int kTileCols = 8;

  using PackedMatrix::PackedMatrix;

  std::vector<std::uint32_t> row_window_offset;  // [num_row_windows + 1] first TC block of a window
  std::vector<std::uint32_t> tc_offset;          // [num_tc_blocks + 1] first nonzero of a TC block
  std::vector<std::int32_t> sparse_a_to_b;       // [num_tc_blocks * 8] column of A, or kNoColumn
  std::vector<std::uint64_t> tc_local_bit;       // [num_tc_blocks] bit 8 * row + condensed column
  std::vector<float> values;                     // [nnz] by TC block, then by bit

  static constexpr std::tuple kOffsets{&BitTcf::row_window_offset, &BitTcf::tc_offset};
  static constexpr std::tuple kArrays{&BitTcf::sparse_a_to_b, &BitTcf::tc_local_bit,
                                      &BitTcf::values};

  std::int64_t num_row_windows() const {
    return static_cast<std::int64_t>(row_window_offset.size()) - 1;
  }
  std::int64_t num_tc_blocks() const { return static_cast<std::int64_t>(tc_local_bit.size()); }

  /// The rank of cell (row, col) among the stored values of a tile. The cell's bit must be set.
  static int value_rank(std::uint64_t bitmap, int row, int col) {
    const int bit = row * kTileCols + col;
    return std::popcount(bitmap & ((std::uint64_t{1} << bit) - 1));
  }

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;
  std::string locate(std::int32_t row) const override;
};

}  // namespace tessera
