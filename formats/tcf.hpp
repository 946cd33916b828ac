// TCF (sparse graph translation, TC-GNN, Wang et al., ATC 2023): CSR of A and, for every nonzero,
// its row and its condensed column in the row window, which 16 x 8 TC blocks of 16-row windows need
// beyond CSR.
//
// The published names are nodePointer, edgeList, edgeToColumn, edgeToRow and blockPartition, all
// signed 32-bit as here. TC-GNN multiplies by adjacency matrices without values; values follow CSR
// order, as in its attention layers. The footprint is 4 (rows + 1 + 4 nnz + windows) bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/format.hpp"

namespace tessera {

struct Tcf final : PackedMatrix {
  static constexpr const char* kFormat = "tcf";

  using PackedMatrix::PackedMatrix;

  int window_rows = 0;                        // height of a row window
  int tile_cols = 0;                          // condensed columns of a TC block
  std::vector<std::int32_t> row_offsets;      // [rows + 1]
  Array<std::int32_t> col_indices;            // [nnz] column of A, ascending in a row
  std::vector<std::int32_t> edge_to_column;   // [nnz] place among the window's active columns, from
                                              // 0: TC block place / tile_cols, column % tile_cols
  std::vector<std::int32_t> edge_to_row;      // [nnz] row of A
  std::vector<std::int32_t> block_partition;  // [num_row_windows] TC blocks of a window
  Array<float> values;                        // [nnz] in CSR order

  std::int64_t num_row_windows() const { return std::ssize(block_partition); }
  /// The number of TC blocks in the windows before this one.
  std::int64_t first_tc_block(std::int64_t window) const;

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  TileInfo tiles() const override;
  std::string locate(std::int32_t row) const override;
};

}  // namespace tessera
