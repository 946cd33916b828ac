// CSR with row offsets of 32 bits: the CSR of the papers, who give its size as (rows + 1 + 2 nnz) x
// 4 bytes, and of cuSPARSE with CUSPARSE_INDEX_32I. It has no tiles.
//
// It shares the columns and values of A.
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
