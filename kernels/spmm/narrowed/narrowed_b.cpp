#include "kernels/spmm/narrowed/narrowed_b.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/storage.hpp"

namespace tessera::narrowed {
namespace {

/// The larger one; a NaN is larger than all.
float larger(float one, float other) { return std::isnan(one) || one > other ? one : other; }

/// The largest magnitude of each column, of the rows that `row_of` names.
template <class RowOf>
std::vector<float> largest_of_columns(const DenseMatrix& b, std::int64_t rows, RowOf row_of) {
  std::vector<float> largest(static_cast<std::size_t>(b.cols), 0.0f);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < b.cols; ++j)
      largest[j] = larger(std::abs(b.at(row_of(i), j)), largest[j]);
  return largest;
}

/// The factors of the columns by the sample, that of the segment where a column of it is zero.
std::vector<float> sample_factors(const DenseMatrix& b) {
  std::vector<float> factors(static_cast<std::size_t>(b.cols), 1.0f);
  if (b.rows == 0) return factors;
  const std::vector<float> largest = largest_of_columns(
      b, kSampleRows, [&](std::int64_t i) { return sample_row(static_cast<int>(i), b.rows); });
  for (std::int64_t first = 0; first < b.cols; first += kSegmentCols) {
    const std::int64_t end = std::min(first + kSegmentCols, b.cols);
    float of_segment = 0;
    for (std::int64_t j = first; j < end; ++j) of_segment = larger(largest[j], of_segment);
    for (std::int64_t j = first; j < end; ++j)
      factors[j] = factor_of(largest[j] == 0 ? of_segment : largest[j], kSampleExponent);
  }
  return factors;
}

/// True where no column is misjudged, and no row has small elements only in a segment of columns.
bool is_judged_well(const DenseMatrix& scaled) {
  for (const float largest :
       largest_of_columns(scaled, scaled.rows, [](std::int64_t i) { return i; }))
    if (largest != 0 && !(largest >= std::ldexp(1.0f, kLeastOfCol) && largest <= kLargest))
      return false;
  for (std::int64_t i = 0; i < scaled.rows; ++i) {
    for (std::int64_t first = 0; first < scaled.cols; first += kSegmentCols) {
      float largest = 0;
      for (std::int64_t j = first; j < std::min(first + kSegmentCols, scaled.cols); ++j)
        largest = std::max(largest, std::abs(scaled.at(i, j)));
      if (largest > 0 && largest < std::ldexp(1.0f, kLeastOfRow)) return false;
    }
  }
  return true;
}

}  // namespace

float factor_of(float largest, int exponent) {
  if (largest == 0) largest = 1;
  if (!std::isfinite(largest) || std::abs(std::ilogb(largest)) > kMostExponent) return 0;
  return std::ldexp(1.0f, exponent - std::ilogb(largest));
}

NarrowedB narrow(const DenseMatrix& b) {
  const std::vector<float> factors = sample_factors(b);
  if (std::ranges::count(factors, 0.0f) > 0) return {};
  NarrowedB narrowed{.b = b};
  for (std::int64_t i = 0; i < b.rows; ++i)
    for (std::int64_t j = 0; j < b.cols; ++j) narrowed.b.at(i, j) *= factors[j];
  if (!is_judged_well(narrowed.b)) return {};
  narrowed.b = stored_as(ElementType::kFp16, std::move(narrowed.b));
  for (const float factor : factors) narrowed.col_scales.push_back(1 / factor);
  narrowed.is_narrow = true;
  return narrowed;
}

}  // namespace tessera::narrowed
