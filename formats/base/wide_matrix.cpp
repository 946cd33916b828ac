#include "formats/base/wide_matrix.hpp"

#include <bit>
#include <cmath>
#include <utility>

namespace tessera {

WideCsrMatrix widened(const CsrMatrix& matrix) {
  return {matrix.rows,
          matrix.cols,
          {matrix.row_offsets.begin(), matrix.row_offsets.end()},
          {matrix.col_indices.begin(), matrix.col_indices.end()},
          {matrix.values.begin(), matrix.values.end()}};
}

CsrMatrix rounded(const WideCsrMatrix& matrix) {
  std::vector<float> values;
  values.reserve(matrix.values.size());
  for (const double value : matrix.values)
    values.push_back(std::isnan(value) ? std::bit_cast<float>(0x7fffffff)
                                       : static_cast<float>(value));
  return {matrix.rows, matrix.cols, matrix.row_offsets, matrix.col_indices, std::move(values)};
}

}  // namespace tessera
