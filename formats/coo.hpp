// COO: row, column and value of every nonzero, in the order of CSR: by row, then by column. The
// coordinate form of tSparse, section 2.1.1, with 32-bit indices. It has no tiles.
//
// It shares the columns and values of A.
#pragma once

#include "formats/format.hpp"

namespace tessera {

struct Coo final : PackedMatrix {
  static constexpr const char* kFormat = "coo";

  using PackedMatrix::PackedMatrix;

  std::vector<std::int32_t> row_indices;  // [nnz] ascending
  Array<std::int32_t> col_indices;        // [nnz] ascending in a row
  Array<float> values;                    // [nnz]

  CsrMatrix unpack() const override;
  std::vector<ArrayInfo> arrays() const override;
  std::string locate(std::int32_t row) const override;
};

}  // namespace tessera
