#include "oracle/spmm_oracle.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

// Compiled for several vector widths where the loader can choose between them; sanitizers start
// before it does. The levels ask for features; the name of a processor, such as arch=haswell, would
// be compared with this one's and miss every other maker's.
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESSERA_VECTOR_CLONES
#else
#define TESSERA_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

namespace tessera {
namespace {

constexpr std::int64_t kPanel = 16;  // rows of truth made and compared at a time
constexpr double kInf = std::numeric_limits<double>::infinity();

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

/// One unit in the last place of the truth rounded to FP32, as its reciprocal.
double per_fp32_ulp(double truth) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(truth));
  // Subnormals have the spacing of the smallest normals; a truth that rounds to infinity is given
  // that of the largest finite numbers.
  const auto exponent = std::clamp<std::uint32_t>((bits >> 23) & 0xff, 1, 254);
  return std::bit_cast<double>(std::uint64_t{1023 + 150 - exponent} << 52);  // 2^(150 - exponent)
}

/// Sums of one panel, added up in panel order afterwards.
struct PanelErrors {
  SpmmErrors errors;
  double smape_sum = 0;
  double squares = 0;  // of errors
  double truth_squares = 0;
  double worst_ratio = -1;
  bool worst_non_finite = false;

  /// The first of the worst elements stays.
  void offer_worst(const SpmmErrors::Worst& element, double ratio, bool non_finite) {
    if (non_finite < worst_non_finite) return;
    if (non_finite == worst_non_finite && !(ratio > worst_ratio)) return;
    errors.worst = element;
    worst_ratio = ratio;
    worst_non_finite = non_finite;
  }
};

/// Whether an element that is NaN or infinite in C or in truth is what FP32 makes of the truth.
bool is_rightly_special(double truth, double computed, double bound) {
  if (std::isnan(truth)) return std::isnan(computed);
  if (!std::isinf(computed) || std::signbit(computed) != std::signbit(truth)) return false;
  return std::isinf(truth) || std::fabs(truth) + bound > std::numeric_limits<float>::max();
}

/// Error over what it is measured against; 0/0 is 0, x/0 infinite.
double over(double error, double scale) {
  if (error == 0) return 0;
  return scale > 0 ? error / scale : kInf;
}

void compare_element(double truth, double magnitude, double bound, const SpmmErrors::Worst& element,
                     PanelErrors& panel) {
  SpmmErrors& e = panel.errors;
  ++e.compared;
  if (!std::isfinite(truth) || !std::isfinite(element.computed)) {
    if (is_rightly_special(truth, element.computed, bound)) return;
    ++e.non_finite;
    panel.offer_worst(element, kInf, true);
    return;
  }
  const double error = std::fabs(element.computed - truth);
  const double ratio = over(error, bound);
  panel.smape_sum += over(error, std::fabs(truth) + std::fabs(element.computed));
  panel.squares += error * error;
  panel.truth_squares += truth * truth;
  if (truth != 0) e.max_relative = std::max(e.max_relative, error / std::fabs(truth));
  e.backward_error = std::max(e.backward_error, over(error, magnitude));
  e.max_ulp = std::max(e.max_ulp, error * per_fp32_ulp(truth));
  e.beyond_bound += error > bound;
  e.bound_ratio = std::max(e.bound_ratio, ratio);
  if (ratio > panel.worst_ratio) panel.offer_worst(element, ratio, false);
}

PanelErrors compare_panel(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                          const ErrorBound& bound, std::int64_t begin, std::int64_t end) {
  const TrueRows truth = spmm_fp64(a, b, begin, end);
  PanelErrors panel;
  std::size_t place = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t j = 0; j < b.cols; ++j, ++place) {
      const double magnitude = truth.magnitude[place];
      const double expected = truth.product[place];
      // An unbounded relative error of nothing is nothing, not the NaN of inf * 0.
      const double relative = magnitude > 0 ? bound.relative[i] * magnitude : 0;
      const double allowed = relative + bound.absolute[i];
      compare_element(expected, magnitude, allowed, {i, j, expected, c.at(i, j), allowed}, panel);
    }
  }
  return panel;
}

void require_bound(const ErrorBound& bound, std::int64_t rows) {
  const auto size = static_cast<std::size_t>(rows);
  require(bound.relative.size() == size && bound.absolute.size() == size,
          "C has {} rows, the error bound {} relative and {} absolute parts", rows,
          bound.relative.size(), bound.absolute.size());
  for (std::size_t i = 0; i < size; ++i)
    require(bound.relative[i] >= 0 && bound.absolute[i] >= 0,
            "row {}: an error bound cannot be {} |A||B| + {}", i, bound.relative[i],
            bound.absolute[i]);
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
  if (p.compared > 0) all.offer_worst(p.worst, panel.worst_ratio, panel.worst_non_finite);
}

}  // namespace

TrueRows spmm_fp64(const CsrMatrix& a, const DenseMatrix& b, std::int64_t begin, std::int64_t end) {
  require(b.rows == a.cols, "A is {} x {}, but B is {} x {}", a.rows, a.cols, b.rows, b.cols);
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
  require_bound(bound, a.rows);
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
