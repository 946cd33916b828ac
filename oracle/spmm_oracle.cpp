#include "oracle/spmm_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

// Compiled for several vector widths where the loader can choose between them; sanitizers start
// before it does.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESSERA_VECTOR_CLONES
#else
#define TESSERA_VECTOR_CLONES \
  __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#endif

namespace tessera {
namespace {

constexpr std::int64_t kPanel = 16;  // rows of truth made and compared at a time
constexpr double kInf = std::numeric_limits<double>::infinity();

/// sum + lost holds the running total; magnitude the sum of absolute terms. No contraction to fused
/// multiply-adds can change it: the product is exact.
TESSERA_VECTOR_CLONES
void add_row(double a, const float* __restrict b, double* __restrict sum, double* __restrict lost,
             double* __restrict magnitude, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    const double term = a * static_cast<double>(b[j]);
    const double total = sum[j] + term;
    const double from_sum = (sum[j] - total) + term;
    const double from_term = (term - total) + sum[j];
    lost[j] += std::fabs(sum[j]) >= std::fabs(term) ? from_sum : from_term;
    sum[j] = total;
    magnitude[j] += std::fabs(term);
  }
}

/// Distance to the next FP32 number away from zero at the truth.
double fp32_ulp(double truth) {
  const int exponent = std::max(std::ilogb(std::fabs(truth)), -126);
  return std::ldexp(1.0, exponent - 23);
}

/// Sums of one panel, added up in panel order afterwards.
struct PanelErrors {
  SpmmErrors errors;
  double smape_sum = 0;
  double squares = 0;  // of errors
  double truth_squares = 0;
  double worst_ratio = -1;  // infinite for a wrong NaN
};

void compare_element(double truth, double magnitude, double computed, double bound,
                     PanelErrors& panel, std::int64_t row, std::int64_t col) {
  SpmmErrors& e = panel.errors;
  ++e.compared;
  double ratio = 0;
  // A sum beyond FP32's range is an infinity in FP32, rightly.
  const bool truth_overflows =
      std::isfinite(truth) && std::fabs(truth) + bound > std::numeric_limits<float>::max();
  const bool same_special =
      (std::isnan(truth) && std::isnan(computed)) || truth == computed ||
      (truth_overflows && std::isinf(computed) && std::signbit(computed) == std::signbit(truth));
  if (!std::isfinite(truth) || !std::isfinite(computed)) {
    if (same_special) return;
    ++e.non_finite;
    ratio = kInf;
  } else {
    const double error = std::fabs(computed - truth);
    const double scale = std::fabs(truth) + std::fabs(computed);
    panel.smape_sum += scale > 0 ? error / scale : 0;
    panel.squares += error * error;
    panel.truth_squares += truth * truth;
    if (truth != 0) e.max_relative = std::max(e.max_relative, error / std::fabs(truth));
    if (error > 0) {
      e.backward_error = std::max(e.backward_error, magnitude > 0 ? error / magnitude : kInf);
      e.max_ulp = std::max(e.max_ulp, error / fp32_ulp(truth));
      ratio = bound > 0 ? error / bound : kInf;
    }
    e.beyond_bound += error > bound;
    e.bound_ratio = std::max(e.bound_ratio, ratio);
  }
  if (ratio > panel.worst_ratio) {
    panel.worst_ratio = ratio;
    e.worst = {row, col, truth, computed, bound};
  }
}

PanelErrors compare_panel(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                          const ErrorBound& bound, std::int64_t begin, std::int64_t end) {
  const TrueRows truth = spmm_fp64(a, b, begin, end);
  PanelErrors panel;
  std::size_t place = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t j = 0; j < b.cols; ++j, ++place) {
      const double magnitude = truth.magnitude[place];
      const double allowed = bound.relative[i] * magnitude + bound.absolute[i];
      compare_element(truth.product[place], magnitude, c.at(i, j), allowed, panel, i, j);
    }
  }
  return panel;
}

void merge(PanelErrors& all, const PanelErrors& panel) {
  SpmmErrors& e = all.errors;
  const SpmmErrors& p = panel.errors;
  all.smape_sum += panel.smape_sum;
  all.squares += panel.squares;
  all.truth_squares += panel.truth_squares;
  e.max_relative = std::max(e.max_relative, p.max_relative);
  e.backward_error = std::max(e.backward_error, p.backward_error);
  e.max_ulp = std::max(e.max_ulp, p.max_ulp);
  e.bound_ratio = std::max(e.bound_ratio, p.bound_ratio);
  e.compared += p.compared;
  e.beyond_bound += p.beyond_bound;
  e.non_finite += p.non_finite;
  if (panel.worst_ratio > all.worst_ratio) {
    all.worst_ratio = panel.worst_ratio;
    e.worst = p.worst;
  }
}

}  // namespace

TrueRows spmm_fp64(const CsrMatrix& a, const DenseMatrix& b, std::int64_t begin, std::int64_t end) {
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
    // With an infinity or a NaN among the terms the plain sum is the answer, the loss is a NaN.
    for (std::int64_t j = 0; j < n; ++j)
      if (std::isfinite(sum[j])) sum[j] += lost[j];
  }
  return rows;
}

SpmmErrors compare_spmm(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                        const ErrorBound& bound) {
  require(b.rows == a.cols && c.rows == a.rows && c.cols == b.cols,
          "shapes do not fit: A is {} x {}, B {} x {}, C {} x {}", a.rows, a.cols, b.rows, b.cols,
          c.rows, c.cols);
  require(bound.relative.size() == static_cast<std::size_t>(a.rows) &&
              bound.absolute.size() == static_cast<std::size_t>(a.rows),
          "the bound is for {} rows, C has {}", bound.relative.size(), a.rows);
  std::vector<PanelErrors> panels((a.rows + kPanel - 1) / kPanel);
  parallel_for(a.rows, kPanel, [&](std::int64_t begin, std::int64_t end) {
    panels[begin / kPanel] = compare_panel(a, b, c, bound, begin, end);
  });

  PanelErrors all;
  for (const PanelErrors& panel : panels) merge(all, panel);
  SpmmErrors& errors = all.errors;
  if (errors.compared > 0)
    errors.smape_pct = 100 * all.smape_sum / static_cast<double>(errors.compared);
  if (all.squares > 0) errors.relative_frobenius = std::sqrt(all.squares / all.truth_squares);
  if (errors.non_finite > 0) errors.bound_ratio = kInf;
  return errors;
}

}  // namespace tessera
