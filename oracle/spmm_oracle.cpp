#include "oracle/spmm_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/vector_clones.hpp"
#include "oracle/error_meter.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kPanel = 16;  // rows of truth computed and compared at a time

/// sum + lost holds the running total; magnitude the sum of absolute terms. The loss of an addition
/// is Knuth's TwoSum: exact without a branch, so that it vectorises. No contraction to fused
/// multiply-adds can change it: the product is exact.
TESSERA_VECTOR_CLONES
void add_row(double a, const float* __restrict b, double* __restrict sum, double* __restrict lost,
             double* __restrict magnitude, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    const double term = a * static_cast<double>(b[j]);
    const double total = sum[j] + term;
    const double term_part = total - sum[j];
    lost[j] += (sum[j] - (total - term_part)) + (term - term_part);
    sum[j] = total;
    magnitude[j] += std::fabs(term);
  }
}

/// Adds with one rounding per product on every processor: std::fma is explicit.
TESSERA_VECTOR_CLONES
void fma_row(float a, const float* __restrict b, float* __restrict c, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) c[j] = std::fma(a, b[j], c[j]);
}

void spmm_fp32_row(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i, std::span<float> c) {
  std::ranges::fill(c, 0.0f);
  for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k)
    fma_row(a.values[k], b.row(a.col_indices[k]).data(), c.data(), b.cols);
}

void require_shapes(const CsrMatrix& a, const DenseMatrix& b) {
  require(b.rows == a.cols, "A is {} x {}, but B is {} x {}", a.rows, a.cols, b.rows, b.cols);
}

}  // namespace

TrueRows spmm_fp64(const CsrMatrix& a, const DenseMatrix& b, std::int64_t begin, std::int64_t end) {
  require_shapes(a, b);
  require(0 <= begin && begin <= end && end <= a.rows, "rows [{}, {}) of a product with {} rows",
          begin, end, a.rows);
  const auto n = b.cols;
  const auto size = static_cast<std::size_t>((end - begin) * n);
  TrueRows rows{std::vector<double>(size, 0), std::vector<double>(size, 0)};
  std::vector<double> lost(n);
  for (std::int64_t i = begin; i < end; ++i) {
    double* sum = rows.product.data() + (i - begin) * n;
    double* magnitude = rows.magnitude.data() + (i - begin) * n;
    std::ranges::fill(lost, 0.0);
    for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k)
      add_row(a.values[k], b.row(a.col_indices[k]).data(), sum, lost.data(), magnitude, n);
    // With an infinity or a NaN among the terms the plain sum is the result: the loss is NaN.
    for (std::int64_t j = 0; j < n; ++j)
      if (std::isfinite(sum[j])) sum[j] += lost[j];
  }
  return rows;
}

DenseMatrix spmm_fp32(const CsrMatrix& a, const DenseMatrix& b) {
  require_shapes(a, b);
  DenseMatrix c(a.rows, b.cols);
  parallel_for(a.rows, kPanel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) spmm_fp32_row(a, b, i, c.row(i));
  });
  return c;
}

ProductErrors compare_spmm(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                           const ErrorBound& bound, bool against_fp32) {
  require(b.rows == a.cols && c.rows == a.rows && c.cols == b.cols,
          "shapes do not fit: A is {} x {}, B {} x {}, C {} x {}", a.rows, a.cols, b.rows, b.cols,
          c.rows, c.cols);
  require_bound(bound, a.rows);
  const ProductNorms norms{frobenius_norm(a.values), frobenius_norm(b.values)};
  const auto n = static_cast<std::size_t>(b.cols);
  const auto visit = [&](std::int64_t panel, PanelMeter& meter) {
    const std::int64_t begin = panel * kPanel, end = std::min<std::int64_t>(begin + kPanel, a.rows);
    const TrueRows truth = spmm_fp64(a, b, begin, end);
    std::vector<float> fp32(n, 0.0f);
    for (std::int64_t i = begin; i < end; ++i) {
      if (against_fp32) spmm_fp32_row(a, b, i, fp32);
      const auto computed = c.row(i);
      for (std::size_t j = 0, place = (i - begin) * n; j < n; ++j, ++place)
        meter.add({.row = i,
                   .col = static_cast<std::int64_t>(j),
                   .truth = truth.product[place],
                   .magnitude = truth.magnitude[place],
                   .relative = bound.relative[i],
                   .absolute = bound.absolute[i],
                   .computed = computed[j],
                   .fp32 = fp32[j]});
    }
  };
  return measure_errors((a.rows + kPanel - 1) / kPanel, norms, {against_fp32, bound.largest},
                        visit);
}

}  // namespace tessera
