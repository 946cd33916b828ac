// The matrices of every product: A sparse (CsrMatrix), B and C dense (DenseMatrix).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/base/array.hpp"

namespace tessera {

/// A sparse matrix in compressed sparse rows. Fixed types, immutable arrays, no template
/// parameters. Column indices are ascending and distinct within a row; explicit zeros are kept.
struct CsrMatrix {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  Array<std::int64_t> row_offsets = std::vector<std::int64_t>{0};  // [rows + 1]
  Array<std::int32_t> col_indices;                                 // [nnz]
  Array<float> values;                                             // [nnz]

  std::int64_t nnz() const { return row_offsets.back(); }
  std::int64_t row_length(std::int64_t row) const {
    return row_offsets[row + 1] - row_offsets[row];
  }
  std::span<const std::int32_t> row_cols(std::int64_t row) const {
    return {col_indices.data() + row_offsets[row], static_cast<std::size_t>(row_length(row))};
  }
  std::span<const float> row_values(std::int64_t row) const {
    return {values.data() + row_offsets[row], static_cast<std::size_t>(row_length(row))};
  }
};

/// A dense matrix, row-major.
struct DenseMatrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> values;  // [rows * cols]

  DenseMatrix() = default;
  /// Throws an Error that names the extents if their product overflows, and OutOfMemory if the
  /// values do not fit the memory of this machine.
  DenseMatrix(std::int64_t rows, std::int64_t cols, float fill = 0);

  std::span<float> row(std::int64_t i) {
    return {values.data() + i * cols, static_cast<std::size_t>(cols)};
  }
  std::span<const float> row(std::int64_t i) const {
    return {values.data() + i * cols, static_cast<std::size_t>(cols)};
  }
  float& at(std::int64_t i, std::int64_t j) { return values[i * cols + j]; }
  float at(std::int64_t i, std::int64_t j) const { return values[i * cols + j]; }
};

/// Throws an Error that names the row and the cause unless the arrays have the extents and the
/// order that CsrMatrix guarantees.
void validate(const CsrMatrix& matrix);

bool operator==(const CsrMatrix& a, const CsrMatrix& b);  // same shape, indices and value bits

/// 32 hexadecimal digits over shape, offsets, indices and value bits (XXH3-128).
std::string content_hash(const CsrMatrix& matrix);

/// True when every stored value is one, as in a matrix published without values.
bool is_pattern(const CsrMatrix& matrix);

/// A^T.
CsrMatrix transpose(const CsrMatrix& matrix);

/// B [rows x cols] with seeded values in (-1, 1), never zero: ones or zeros in B would hide a wrong
/// column index.
DenseMatrix random_dense(std::int64_t rows, std::int64_t cols, std::uint64_t seed);

}  // namespace tessera
