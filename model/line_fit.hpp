// The line y = intercept + slope x through measured pairs, with confidence intervals.
//
// Ordinary least squares (Draper and Smith, Applied Regression Analysis, chapters 1 and 3): the
// scatter of y is taken to be independent, normal and equally wide at every x.
#pragma once

#include <cstdint>
#include <span>

namespace tessera {

struct Interval {
  double low = 0;
  double high = 0;

  bool contains(double value) const { return low <= value && value <= high; }
};

/// Slope and intercept of a fitted line with their intervals: Student's t with `samples` - 2
/// degrees of freedom. Units are those of x and y.
struct LineFit {
  double slope = 0;
  double intercept = 0;
  Interval slope_interval{};
  Interval intercept_interval{};
  double r_squared = 0;     // share of y's variance that the line explains; 1 when y is constant
  double residual_std = 0;  // standard deviation of y about the line
  double confidence = 0;    // of every interval here, in (0, 1)
  std::int64_t samples = 0;

  double at(double x) const { return intercept + slope * x; }
  /// Confidence interval of the line itself at x.
  Interval line_interval(double x) const;
  /// Prediction interval of one further measurement at x.
  Interval prediction_interval(double x) const;

  double mean_x = 0;      // mean x of the fitted pairs
  double spread = 0;      // sum over the pairs of (x - mean_x)^2
  double t_quantile = 0;  // two-sided
};

/// Fits a line to the pairs (x[i], y[i]). Throws an Error unless x and y have one length of at
/// least three, all their values are finite, x holds two different values, and the confidence is in
/// (0, 1).
LineFit fit_line(std::span<const double> x, std::span<const double> y, double confidence = 0.95);

}  // namespace tessera
