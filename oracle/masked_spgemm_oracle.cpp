// compare_masked_spgemm() of oracle/spgemm_oracle.hpp: dot products at the cells of a mask, each by
// a walk over a row of A and a column of B side by side.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "formats/base/check.hpp"
#include "oracle/error_meter.hpp"
#include "oracle/spgemm_oracle.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kPanel = 64;  // rows of C that are compared at a time

/// The columns of B: column j has the nonzeros [offsets[j], offsets[j + 1]), rows ascending.
struct Columns {
  explicit Columns(const CsrMatrix& b)
      : offsets(static_cast<std::size_t>(b.cols) + 1, 0), rows(b.nnz()), values(b.nnz()) {
    for (const std::int32_t col : b.col_indices) ++offsets[col + 1];
    for (std::int32_t col = 0; col < b.cols; ++col) offsets[col + 1] += offsets[col];
    std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
    for (std::int32_t row = 0; row < b.rows; ++row)
      for (std::int64_t k = b.row_offsets[row]; k < b.row_offsets[row + 1]; ++k) {
        const std::int64_t at = next[b.col_indices[k]]++;
        rows[at] = row;
        values[at] = b.values[k];
      }
  }

  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> rows;
  std::vector<float> values;
};

/// A dot product: its sum with compensation, the sum of magnitudes, and a chain of fused
/// multiply-adds in FP32.
struct Dot {
  double sum = 0, lost = 0, magnitude = 0;
  float fp32 = 0;

  void add(float left, float right) {
    const double term = static_cast<double>(left) * static_cast<double>(right);  // exact
    const double total = sum + term;
    const double part = total - sum;
    lost += (sum - (total - part)) + (term - part);  // Knuth's TwoSum
    sum = total;
    magnitude += std::fabs(term);
    fp32 = std::fma(left, right, fp32);
  }
  /// With an infinity or a NaN among the terms the plain sum is the result: the loss is NaN.
  double truth() const { return std::isfinite(sum) ? sum + lost : sum; }
};

Dot dot_of(const CsrMatrix& a, std::int64_t row, const Columns& b, std::int32_t col) {
  Dot dot;
  std::int64_t of_a = a.row_offsets[row], of_b = b.offsets[col];
  while (of_a < a.row_offsets[row + 1] && of_b < b.offsets[col + 1]) {
    const std::int32_t k = a.col_indices[of_a], l = b.rows[of_b];
    if (k == l) dot.add(a.values[of_a], b.values[of_b]);
    of_a += k <= l ? 1 : 0;
    of_b += l <= k ? 1 : 0;
  }
  return dot;
}

}  // namespace

ProductErrors compare_masked_spgemm(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& c,
                                    const ErrorBound& bound, bool against_fp32) {
  require(b.rows == a.cols && c.rows == a.rows && c.cols == b.cols,
          "shapes do not fit: A is {} x {}, B {} x {}, C {} x {}", a.rows, a.cols, b.rows, b.cols,
          c.rows, c.cols);
  require_bound(bound, a.rows);
  validate(c);
  const Columns columns(b);
  const auto visit = [&](std::int64_t panel, PanelMeter& meter) {
    const std::int64_t begin = panel * kPanel, end = std::min<std::int64_t>(begin + kPanel, a.rows);
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t k = c.row_offsets[row]; k < c.row_offsets[row + 1]; ++k) {
        const Dot dot = dot_of(a, row, columns, c.col_indices[k]);
        meter.add({.row = row,
                   .col = c.col_indices[k],
                   .truth = dot.truth(),
                   .magnitude = dot.magnitude,
                   .relative = bound.relative[row],
                   .absolute = bound.absolute[row],
                   .computed = c.values[k],
                   .fp32 = against_fp32 ? dot.fp32 : 0});
      }
  };
  const ProductNorms norms{frobenius_norm(a.values), frobenius_norm(b.values)};
  return measure_errors((a.rows + kPanel - 1) / kPanel, norms, {against_fp32, bound.largest},
                        visit);
}

}  // namespace tessera
