// The measures of a computed product against its truth, the same for dense and sparse C.
//
// Errors are taken relative to three things: the truth (what a user sees), |A||B| (what the
// arithmetic answers for; Higham, Accuracy and Stability of Numerical Algorithms, chapters 3 and 7)
// and one unit in the last place. The first is the second times the condition number (|A||B|) /
// |AB|, which is therefore measured as well. Units are in the names: _pct percent, _ulp units in
// the last place of the truth rounded to FP32; numbers without a unit are ratios.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace tessera {

/// How far element (i, j) may be off: relative[i] * (|A||B|)_ij + absolute[i].
struct ErrorBound {
  std::vector<double> relative;  // [rows]
  std::vector<double> absolute;  // [rows]
};

/// Values that 50, 95, 99 and 100 % do not exceed: the maximum exactly, the others rounded up to
/// eight significant bits.
struct Quantiles {
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;

  bool operator==(const Quantiles&) const = default;
};

/// Counts of errors by size in ulps: place 0 those of none, place i those of at most 2^(i - 2) and
/// more than half that, the last place all beyond.
using UlpHistogram = std::array<std::int64_t, 34>;

/// Upper end of a place of the histogram, in ulps; infinite for the last.
double ulp_upper_end(std::size_t place);

/// Errors of the elements whose condition number is in [10^d, 10^(d+1)).
struct ConditionDecade {
  std::int64_t count = 0;
  double median_relative = 0;  // of |error| / |truth|; like a quantile
  double max_relative = 0;
  double median_backward = 0;  // of |error| / (|A||B|); like a quantile

  bool operator==(const ConditionDecade&) const = default;
};

/// Decades 0 to 16; the last one has no upper end and holds what cancels exactly, whose condition
/// number is infinite and whose relative error is zero or infinite.
using ConditionTable = std::array<ConditionDecade, 17>;

/// The measures are over the elements that are finite in C and in truth; non_finite counts the rest
/// that went wrong, and makes bound_ratio infinite. 0/0 counts as 0, x/0 as infinity. An element
/// with |A||B| = 0, without a term or with zeros alone, is nothing that arithmetic could get wrong:
/// it is in the distribution of backward errors only if it is wrong, and has no condition number.
struct ProductErrors {
  // SMAPE as tSparse defines it (Eq. 3): 100/n sum |x - y| / (|x| + |y|); 0 to 100 %.
  double smape_pct = 0;
  // SMAPE as it is commonly defined, against the mean of both: twice the above; 0 to 200 %.
  double smape_common_pct = 0;
  // smape_pct against C computed in FP32, as tSparse measures it, where that is asked for.
  std::optional<double> smape_fp32_pct;

  double relative_frobenius = 0;       // ||C - truth||_F / ||truth||_F
  double max_relative = 0;             // largest |error| / |truth| where the truth is not 0
  Quantiles backward_error;            // of |error| / (|A||B|): componentwise
  double mean_backward_error = 0;      // over the same elements
  double normwise_backward_error = 0;  // ||C - truth||_F / (||A||_F ||B||_F)
  // Mean of error * sign(truth) / (|A||B|) where the truth is not 0: negative when sums come out
  // too small in magnitude, as truncation makes them; 0 for rounding to nearest.
  double signed_bias = 0;
  double max_ulp = 0;  // largest |error|
  UlpHistogram ulp_histogram{};

  Quantiles condition;           // of (|A||B|) / |AB|
  double condition_geomean = 0;  // where the truth is not 0
  ConditionTable by_condition{};

  double bound_ratio = 0;         // largest |error| / bound
  std::int64_t compared = 0;      // all elements
  std::int64_t beyond_bound = 0;  // finite elements with |error| > bound
  std::int64_t non_finite = 0;    // NaN or infinite where the truth is not the same
  std::int64_t overflows = 0;     // infinite where the truth is finite in FP32
  std::int64_t underflows = 0;    // 0 or subnormal where the truth is a normal FP32 number

  /// The element with the largest bound ratio; one that is wrongly NaN or infinite before all.
  struct Worst {
    std::int64_t row = 0;
    std::int64_t col = 0;
    double expected = 0;
    double computed = 0;
    double bound = 0;

    bool operator==(const Worst&) const = default;
  } worst;

  bool operator==(const ProductErrors&) const = default;
  bool ok() const { return beyond_bound == 0 && non_finite == 0; }
};

}  // namespace tessera
