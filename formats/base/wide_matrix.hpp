// Sparse matrices with values in FP64, for products that compute in it. Every other part of the
// testbed has values in FP32.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// A sparse matrix in compressed sparse rows, as CsrMatrix, with values in FP64.
struct WideCsrMatrix {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::vector<std::int64_t> row_offsets = {0};  // [rows + 1]
  std::vector<std::int32_t> col_indices;        // [nnz]
  std::vector<double> values;                   // [nnz]

  std::int64_t nnz() const { return row_offsets.back(); }
};

/// The same matrix with values in FP64, which is exact.
WideCsrMatrix widened(const CsrMatrix& matrix);

/// The same matrix with each value rounded to the nearest FP32; a NaN becomes the one that a GPU's
/// arithmetic gives.
CsrMatrix rounded(const WideCsrMatrix& matrix);

}  // namespace tessera
