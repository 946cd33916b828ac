// CSR with row offsets of 32 bits: what the papers mean when they give the size of CSR as
// (rows + 1 + 2 nnz) x 4 bytes, and what cuSPARSE takes with CUSPARSE_INDEX_32I. No tiles.
//
// Columns and values are those of A, shared with it, not copied.
#pragma once

#include "formats/format.hpp"

namespace tessera {

struct Csr32 final : PackedMatrix {
  static constexpr const char* kFormat = "csr32";

  using PackedMatrix::PackedMatrix;

  std::vector<std::uint32_t> row_offsets;  // [rows + 1] first nonzero of a row
  Array<std::int32_t> col_indices;         // [nnz] ascending in a row
  Array<float> values;                     // [nnz]

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  std::string locate(std::int32_t row) const override;
};

}  // namespace tessera
