// The pattern of some rows of a matrix in a given order, with its columns numbered by first
// occurrence: rows and columns that are used together lie together, and arrays over columns are no
// larger than those rows need.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/raw_vector.hpp"

namespace tessera {

/// A pattern with the names of CsrMatrix; the columns of a row are distinct and in no order.
struct RowPattern {
  std::int32_t rows = 0;
  std::int32_t cols = 0;                     // nonempty columns
  std::vector<std::int64_t> row_offsets{0};  // [rows + 1]
  RawVector<std::int32_t> col_indices;       // [row_offsets.back()]

  std::int64_t row_length(std::int32_t row) const {
    return row_offsets[row + 1] - row_offsets[row];
  }
  std::span<const std::int32_t> row_cols(std::int32_t row) const {
    return {col_indices.data() + row_offsets[row], static_cast<std::size_t>(row_length(row))};
  }
};

/// Numbers the columns of rows. It can be used repeatedly without clearing its table: an entry is
/// valid if the column with its number is that entry's column. 4 bytes per column.
class ColumnNumbers {
 public:
  /// The pattern of `rows` in their order.
  RowPattern number(const CsrMatrix& matrix, std::span<const std::int32_t> rows);

 private:
  std::int32_t number_of(std::int32_t col) {
    std::int32_t& number = numbers_[col];
    if (number >= std::ssize(numbered_) || numbered_[number] != col) {
      number = static_cast<std::int32_t>(numbered_.size());
      numbered_.push_back(col);
    }
    return number;
  }

  std::vector<std::int32_t> numbers_;   // [cols]
  std::vector<std::int32_t> numbered_;  // columns by number
};

/// The pattern that ColumnNumbers().number() returns, by all threads.
RowPattern number_columns(const CsrMatrix& matrix, std::span<const std::int32_t> rows);

}  // namespace tessera
