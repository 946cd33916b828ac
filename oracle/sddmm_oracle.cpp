#include "oracle/sddmm_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "formats/base/check.hpp"
#include "formats/base/vector_clones.hpp"
#include "oracle/error_meter.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kPanel = 64;  // rows of truth computed and compared at a time
constexpr int kLanes = 8;            // sums side by side, so that an addition need not wait

/// A dot product as kLanes sums: sum + lost holds the running totals.
struct LaneSums {
  alignas(64) double sum[kLanes] = {}, lost[kLanes] = {}, magnitude[kLanes] = {};
};

/// Adds whole groups of kLanes products, each to its lane. The loss of an addition is Knuth's
/// TwoSum: exact without a branch, so that it vectorises.
TESSERA_VECTOR_CLONES
void add_products(const float* __restrict x, const float* __restrict y, std::int64_t groups,
                  LaneSums& lanes) {
  for (std::int64_t g = 0; g < groups; ++g)
    for (int l = 0; l < kLanes; ++l) {
      const double term =
          static_cast<double>(x[g * kLanes + l]) * static_cast<double>(y[g * kLanes + l]);
      const double total = lanes.sum[l] + term;
      const double term_part = total - lanes.sum[l];
      lanes.lost[l] += (lanes.sum[l] - (total - term_part)) + (term - term_part);
      lanes.sum[l] = total;
      lanes.magnitude[l] += std::fabs(term);
    }
}

struct Truth {
  double product, magnitude;
};

/// Padded rows of X and Y [groups * kLanes].
Truth dot(const std::vector<float>& x, const std::vector<float>& y) {
  LaneSums lanes;
  add_products(x.data(), y.data(), std::ssize(x) / kLanes, lanes);
  double sum = 0, lost = 0, magnitude = 0;
  for (int l = 0; l < kLanes; ++l) {
    const double total = sum + lanes.sum[l];
    const double part = total - sum;
    lost += (sum - (total - part)) + (lanes.sum[l] - part) + lanes.lost[l];
    sum = total;
    magnitude += lanes.magnitude[l];
  }
  // With an infinity or a NaN among the terms the plain sum is the result: the loss is NaN.
  return {std::isfinite(sum) ? sum + lost : sum, magnitude};
}

void require_shapes(const CsrMatrix& a, const SampledFactors& factors) {
  const auto& [x, y, scales] = factors;
  require(x.rows == a.rows && y.rows == a.cols && x.cols == y.cols,
          "shapes do not fit: A is {} x {}, X {} x {}, Y {} x {}", a.rows, a.cols, x.rows, x.cols,
          y.rows, y.cols);
}

/// The value of a nonzero in FP32: a chain of fused multiply-adds, and the factor.
float dot_fp32(std::span<const float> x, std::span<const float> y, const float* factor) {
  float sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k) sum = std::fma(x[k], y[k], sum);
  return factor == nullptr ? sum : sum * *factor;
}

}  // namespace

TrueSamples sddmm_fp64(const CsrMatrix& a, const SampledFactors& factors, std::int64_t begin,
                       std::int64_t end) {
  require_shapes(a, factors);
  require(0 <= begin && begin <= end && end <= a.rows, "rows [{}, {}) of a product with {} rows",
          begin, end, a.rows);
  const auto size = static_cast<std::size_t>((factors.x.cols + kLanes - 1) / kLanes * kLanes);
  std::vector<float> x(size, 0.0f), y(size, 0.0f);
  TrueSamples samples;
  for (std::int64_t row = begin; row < end; ++row) {
    std::ranges::copy(factors.x.row(row), x.begin());
    for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k) {
      std::ranges::copy(factors.y.row(a.col_indices[k]), y.begin());
      const Truth truth = dot(x, y);
      const double factor = factors.scales_by_a ? double{a.values[k]} : 1;
      samples.product.push_back(truth.product * factor);
      samples.magnitude.push_back(truth.magnitude * std::fabs(factor));
    }
  }
  return samples;
}

ProductErrors compare_sddmm(const CsrMatrix& a, const SampledFactors& factors, const CsrMatrix& s,
                            const ErrorBound& bound, bool against_fp32) {
  require_shapes(a, factors);
  require(s.rows == a.rows && s.cols == a.cols &&
              std::ranges::equal(s.row_offsets, a.row_offsets) &&
              std::ranges::equal(s.col_indices, a.col_indices),
          "S has another pattern than A");
  require_bound(bound, a.rows);
  const auto visit = [&](std::int64_t panel, PanelMeter& meter) {
    const std::int64_t begin = panel * kPanel, end = std::min<std::int64_t>(begin + kPanel, a.rows);
    const TrueSamples truth = sddmm_fp64(a, factors, begin, end);
    std::size_t place = 0;
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k, ++place)
        meter.add({.row = row,
                   .col = a.col_indices[k],
                   .truth = truth.product[place],
                   .magnitude = truth.magnitude[place],
                   .relative = bound.relative[row],
                   .absolute = bound.absolute[row],
                   .computed = s.values[k],
                   .fp32 = against_fp32
                               ? dot_fp32(factors.x.row(row), factors.y.row(a.col_indices[k]),
                                          factors.scales_by_a ? &a.values[k] : nullptr)
                               : 0});
  };
  const ProductNorms norms{frobenius_norm(factors.x.values), frobenius_norm(factors.y.values)};
  return measure_errors((a.rows + kPanel - 1) / kPanel, norms, {against_fp32, bound.largest},
                        visit);
}

}  // namespace tessera
