// The measures of a computed product against its truth, the same for dense and sparse C.
//
// Errors are measured relative to three values: the truth (forward error), |A||B| (backward error;
// Higham, Accuracy and Stability of Numerical Algorithms, chapters 3 and 7) and one unit in the
// last place. The first is the second times the condition number (|A||B|) / |AB|, which is
// therefore measured as well. Units are in the names: _pct percent, _ulp units in the last place of
// the truth rounded to FP32; numbers without a unit are ratios.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace tessera {

/// The bound on the error of element (i, j): relative[i] * (|A||B|)_ij + absolute[i].
struct ErrorBound {
  std::vector<double> relative;    // [rows]
  std::vector<double> absolute;    // [rows]
  double largest = kLargestFloat;  // the largest finite number of C's type

  static constexpr double kLargestFloat = std::numeric_limits<float>::max();
};

/// The values that 50, 95, 99 and 100 % of the numbers do not exceed: the maximum is exact, the
/// others are rounded up to eight significant bits.
struct Quantiles {
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;

  bool operator==(const Quantiles&) const = default;
};

/// Counts of errors by size in ulps: bin 0 those of zero, bin i those in (2^(i - 3), 2^(i - 2)],
/// the last bin all larger ones.
using UlpHistogram = std::array<std::int64_t, 34>;

/// The upper end of a bin of the histogram, in ulps; infinite for the last.
double ulp_upper_end(std::size_t place);

/// The errors of the elements whose condition number is in [10^d, 10^(d+1)).
struct ConditionDecade {
  std::int64_t count = 0;
  double median_relative = 0;  // of |error| / |truth|, rounded as Quantiles
  double max_relative = 0;
  double median_backward = 0;  // of |error| / (|A||B|), rounded as Quantiles

  bool operator==(const ConditionDecade&) const = default;
};

/// Decades 0 to 16. The last one has no upper end; it includes elements that cancel exactly, whose
/// condition number is infinite and whose relative error is zero or infinite.
using ConditionTable = std::array<ConditionDecade, 17>;

/// The measures of a product. They are over the elements that are finite in C and in truth;
/// non_finite counts wrong elements among the others, which make bound_ratio infinite. 0/0 counts
/// as 0, x/0 as infinity. An element with |A||B| = 0 has no terms but zeros, so arithmetic cannot
/// fail: it is in the distribution of backward errors only if it is wrong, and has no condition
/// number.
struct ProductErrors {
  // SMAPE by tSparse's definition (Eq. 3): 100/n sum |x - y| / (|x| + |y|); 0 to 100 %.
  double smape_pct = 0;
  // SMAPE by the common definition, against the mean of both: twice the above; 0 to 200 %.
  double smape_common_pct = 0;
  // smape_pct against C computed in FP32, as tSparse measures it, where requested.
  std::optional<double> smape_fp32_pct;

  double relative_frobenius = 0;       // ||C - truth||_F / ||truth||_F
  double max_relative = 0;             // largest |error| / |truth| where the truth is not 0
  Quantiles backward_error;            // of |error| / (|A||B|): componentwise
  double mean_backward_error = 0;      // over the elements of backward_error
  double normwise_backward_error = 0;  // ||C - truth||_F / (||A||_F ||B||_F)
  // Mean of error * sign(truth) / (|A||B|) where the truth is not 0: negative when sums are too
  // small in magnitude, as with truncation; near 0 for rounding to nearest.
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
  std::int64_t overflows = 0;     // infinite where the truth is finite in C's type
  std::int64_t underflows = 0;    // 0 or subnormal where the truth is a normal FP32 number

  /// The element with the largest bound ratio; an element that is wrongly NaN or infinite precedes
  /// all others.
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
