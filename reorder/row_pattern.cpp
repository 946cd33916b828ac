#include "reorder/row_pattern.hpp"

namespace tessera {

RowPattern ColumnNumbers::number(const CsrMatrix& matrix, std::span<const std::int32_t> rows) {
  numbers_.resize(matrix.cols, 0);
  numbered_.clear();
  RowPattern pattern;
  pattern.rows = static_cast<std::int32_t>(rows.size());
  pattern.row_offsets.reserve(rows.size() + 1);
  for (const std::int32_t row : rows)
    pattern.row_offsets.push_back(pattern.row_offsets.back() + matrix.row_length(row));
  pattern.col_indices.reserve(pattern.row_offsets.back());
  for (const std::int32_t row : rows)
    for (const std::int32_t col : matrix.row_cols(row))
      pattern.col_indices.push_back(number_of(col));
  pattern.cols = static_cast<std::int32_t>(numbered_.size());
  return pattern;
}

}  // namespace tessera
