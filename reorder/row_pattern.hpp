// The pattern of some rows of a matrix, in an order, its columns numbered as they are met: rows and
// columns that are used together lie together, and all that is kept for each column is as small as
// those rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// Named as in CsrMatrix; the columns of a row are distinct and in no order.
struct RowPattern {
  std::int32_t rows = 0;
  std::int32_t cols = 0;                     // that hold anything
  std::vector<std::int64_t> row_offsets{0};  // [rows + 1]
  std::vector<std::int32_t> col_indices;     // [row_offsets.back()]

  std::int64_t row_length(std::int32_t row) const {
    return row_offsets[row + 1] - row_offsets[row];
  }
  std::span<const std::int32_t> row_cols(std::int32_t row) const {
    return {col_indices.data() + row_offsets[row], static_cast<std::size_t>(row_length(row))};
  }
};

/// Numbers the columns of rows, again and again for different ones without a pass over all columns
/// to begin with: whether an entry of the table is of these rows is told by the column that has its
/// number now. 4 bytes a column.
class ColumnNumbers {
 public:
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

}  // namespace tessera
