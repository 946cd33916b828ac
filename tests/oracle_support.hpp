// Shared by the tests of the oracle: small explicit matrices, a plain FP32 product and bounds.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "formats/base/matrix.hpp"
#include "oracle/error_bounds.hpp"
#include "oracle/product_errors.hpp"

namespace tessera {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline CsrMatrix csr(std::int32_t rows, std::int32_t cols, std::vector<std::int64_t> offsets,
                     std::vector<std::int32_t> indices, std::vector<float> values) {
  CsrMatrix a{rows, cols, std::move(offsets), std::move(indices), std::move(values)};
  validate(a);
  return a;
}

inline DenseMatrix dense(std::int64_t rows, std::int64_t cols, std::vector<float> values) {
  DenseMatrix matrix(rows, cols);
  REQUIRE(values.size() == matrix.values.size());
  matrix.values = std::move(values);
  return matrix;
}

/// C = A B in FP32; each element is a chain of fused multiply-adds from zero.
inline DenseMatrix fma_chain(const CsrMatrix& a, const DenseMatrix& b) {
  DenseMatrix c(a.rows, b.cols);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k)
      for (std::int64_t j = 0; j < b.cols; ++j)
        c.at(i, j) = std::fma(a.values[k], b.at(a.col_indices[k], j), c.at(i, j));
  return c;
}

inline ErrorBound fp32_bound(const CsrMatrix& a) {
  ErrorBound bound;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    bound.relative.push_back(fp32_sum_bound(a.row_length(i)));
    bound.absolute.push_back(underflow_bound(a.row_length(i)));
  }
  return bound;
}

inline ErrorBound same_bound(std::int64_t rows, double relative, double absolute) {
  const auto size = static_cast<std::size_t>(rows);
  return {std::vector<double>(size, relative), std::vector<double>(size, absolute)};
}

}  // namespace tessera
