#include "experiments/check_result.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "oracle/error_bounds.hpp"
#include "oracle/spmm_oracle.hpp"

namespace tessera {
namespace {

/// Per row of the file: what relative to |A||B|, and what absolutely, the kernel may be off by.
ErrorBound bound_of(const CsrMatrix& a, const DenseMatrix& b, const Computation& computation) {
  const Arithmetic arithmetic = computation.kernel.arithmetic();
  const auto terms = computation.kernel.terms_per_row(computation.a);
  const auto old_of_new = computation.rows.old_of_new();
  const auto largest = [](std::span<const float> values) {
    double most = 0;
    for (const float value : values)
      if (std::isfinite(value)) most = std::max(most, std::abs(static_cast<double>(value)));
    return most;
  };
  const double operands = largest(a.values) + largest(b.values);

  ErrorBound bound;
  bound.relative.resize(a.rows);
  bound.absolute.resize(a.rows);
  for (std::int32_t p = 0; p < a.rows; ++p) {
    const std::int32_t row = old_of_new[p];
    const auto nnz = a.row_length(row);
    if (arithmetic.sum == Arithmetic::Sum::kFp32) {
      bound.relative[row] = fp32_sum_bound(terms[p]);
      bound.absolute[row] = underflow_bound(nnz);
      continue;
    }
    // An MMA deeper than a fused step is several steps.
    const FusedStep& step = find_generation(computation.generation).step(arithmetic.type);
    const std::int64_t steps =
        terms[p] * ((mma_depth(arithmetic.type) + step.products - 1) / step.products);
    bound.relative[row] = combine(input_rounding_bound(arithmetic.input_error),
                                  tensor_core_bound(steps, step.products, step.fraction_bits));
    bound.absolute[row] = underflow_bound(steps) + tf32_underflow_bound(nnz, operands);
  }
  return bound;
}

double finite_or_huge(double value) { return std::isfinite(value) ? value : 1e300; }

}  // namespace

CheckedResult check_result(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                           const Computation& computation) {
  const SpmmErrors errors = compare_spmm(a, b, c, bound_of(a, b, computation));
  CheckedResult result;
  result.fields = {{"smape_pct", finite_or_huge(errors.smape_pct)},
                   {"relative_frobenius", finite_or_huge(errors.relative_frobenius)},
                   {"max_rel", finite_or_huge(errors.max_relative)},
                   {"backward_error", finite_or_huge(errors.backward_error)},
                   {"max_ulp", finite_or_huge(errors.max_ulp)},
                   {"bound_ratio", finite_or_huge(errors.bound_ratio)},
                   {"compared", errors.compared},
                   {"beyond_bound", errors.beyond_bound},
                   {"non_finite", errors.non_finite}};
  if (errors.compared == 0) return result;

  const auto& worst = errors.worst;
  const auto old_of_new = computation.rows.old_of_new();
  const auto place = std::ranges::find(old_of_new, static_cast<std::int32_t>(worst.row));
  const std::string tile =
      computation.a.locate(static_cast<std::int32_t>(place - old_of_new.begin()));
  result.fields["worst"] = {
      {"row", worst.row},
      {"col", worst.col},
      {"expected", finite_or_huge(worst.expected)},
      {"computed", std::isfinite(worst.computed) ? Json(worst.computed)
                                                 : Json(fmt::format("{}", worst.computed))},
      {"bound", finite_or_huge(worst.bound)},
      {"tile", tile}};
  if (!errors.ok())
    result.reason = fmt::format(
        "{} of {} elements are beyond the error bound; worst: C[{}][{}] is {:.9g}, not {:.9g} "
        "(bound {:.3g}), in {}",
        errors.beyond_bound + errors.non_finite, errors.compared, worst.row, worst.col,
        worst.computed, worst.expected, worst.bound, tile);
  return result;
}

Json compare_bits(const DenseMatrix& c, const DenseMatrix& expected) {
  std::int64_t different = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < c.values.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(c.values[i]) ==
        std::bit_cast<std::uint32_t>(expected.values[i]))
      continue;
    if (different++ == 0) first = i;
  }
  Json bits{{"compared", c.values.size()}, {"different", different}};
  if (different > 0)
    bits["first"] = {{"row", static_cast<std::int64_t>(first) / c.cols},
                     {"col", static_cast<std::int64_t>(first) % c.cols},
                     {"computed", c.values[first]},
                     {"expected", expected.values[first]}};
  return bits;
}

}  // namespace tessera
