// The statistical test of whether one of two times is shorter, and the mean of many ratios.
//
// A record keeps the median of n samples with their 5 % and 95 % quantiles. By order statistics
// (David and Nagaraja, Order Statistics, section 7.1) the error of the median is the slope of the
// quantile function at 1/2, divided by 2 sqrt(n). Away from its peak a density falls, so that the
// quantile function there lies below the chord between the median and p95 (or p5). The steeper of
// both chords, max(p95 - median, median - p5) / 0.45, therefore bounds the slope for every
// distribution with one peak, however skewed: exactly for a uniform one, 1.46 times too large for a
// normal one. Student's t with Welch's degrees of freedom compares the logarithms of two medians.
//
// With 20 samples that are independent:
//   - Verdicts "faster" and "slower" are corrected for the number of comparisons (Holm 1979). The
//     probability that any of them is given to a difference below the threshold is at most alpha.
//   - "same" means that a difference beyond the threshold is rejected for this pair alone, by two
//     one-sided tests (Schuirmann 1987), each at alpha. A wrong "same" is no false alarm, so that
//     no correction is made.
//   - "ambiguous" is what lies between.
// Samples are of one process. What differs from one process to the next (clocks, addresses) is not
// in them, and the threshold has to cover it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/line_fit.hpp"

namespace tessera {

/// A time and the standard error of its logarithm.
struct TimeEstimate {
  double us = 0;       // more than 0
  double error = 0;    // 0: exact, as a prediction is; infinite: unknown
  double freedom = 0;  // degrees of freedom of the error; infinite when it is known exactly
};

/// A measured time. With fewer than two samples the error is unknown.
TimeEstimate measured_time(double median_us, double p5_us, double p95_us, std::int64_t samples);

/// A prediction; `half_interval` is half its 95 % interval relative to it, 0 without an error.
TimeEstimate predicted_time(double us, double half_interval);

enum class TimeVerdict { kFaster, kSlower, kSame, kAmbiguous };

/// Two times to compare.
struct TimePair {
  TimeEstimate a;
  TimeEstimate b;
  double threshold = 0;  // smallest relative difference that counts
};

/// The result of a comparison. B is `speed` times as fast as A.
struct TimeComparison {
  TimeVerdict verdict = TimeVerdict::kAmbiguous;
  double speed = 1;        // time of A / time of B
  Interval interval = {};  // 95 %, of this pair alone
};

/// Compares every pair; `alpha` is the error rate described above. Exact times that differ by more
/// than the threshold (and by more than rounding, 1e-9) are faster or slower, others the same.
std::vector<TimeComparison> compare_times(std::span<const TimePair> pairs, double alpha);

/// A geometric mean.
struct SpeedMean {
  double speed = 1;
  std::optional<Interval> interval = {};  // 95 %; none for fewer than five matrices
  std::size_t matrices = 0;
};

/// The geometric mean of speeds. Its interval is a percentile bootstrap over matrices, each with
/// all its speeds (Davison and Hinkley, Bootstrap Methods, chapter 5): how far the mean depends on
/// the choice of matrices. `matrix_of` has one name for each speed. Throws an Error without speeds.
SpeedMean mean_speed(std::span<const double> speeds, std::span<const std::string> matrix_of,
                     std::uint64_t seed);

}  // namespace tessera
