#include "model/line_fit.hpp"

#include <algorithm>
#include <cmath>

#include "formats/base/check.hpp"
#include "model/student_t.hpp"

namespace tessera {
namespace {

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

Interval about(double centre, double half_width) {
  return {centre - half_width, centre + half_width};
}

/// Variance of the line at x, in units of the residual variance.
double leverage(const LineFit& fit, double x) {
  const double distance = x - fit.mean_x;
  return 1 / static_cast<double>(fit.samples) + distance * distance / fit.spread;
}

void check(std::span<const double> x, std::span<const double> y, double confidence) {
  require(x.size() == y.size(), "a line fit got {} x values, but {} y values", x.size(), y.size());
  require(x.size() >= 3, "a line with intervals needs three pairs, there are {}", x.size());
  require(confidence > 0 && confidence < 1, "confidence is {}, it lies between 0 and 1",
          confidence);
  const auto finite = [](double value) { return std::isfinite(value); };
  require(std::ranges::all_of(x, finite) && std::ranges::all_of(y, finite),
          "the pairs of a line fit have to be finite");
  const auto [least, most] = std::ranges::minmax(x);
  require(least < most, "all pairs have x = {}: they determine no slope", least);
}

}  // namespace

LineFit fit_line(std::span<const double> x, std::span<const double> y, double confidence) {
  check(x, y, confidence);
  LineFit result{
      .confidence = confidence, .samples = static_cast<std::int64_t>(x.size()), .mean_x = mean(x)};
  const double mean_y = mean(y);
  double together = 0, total = 0, residual = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - result.mean_x, dy = y[i] - mean_y;
    result.spread += dx * dx;
    together += dx * dy;
    total += dy * dy;
  }
  result.slope = together / result.spread;
  result.intercept = mean_y - result.slope * result.mean_x;
  for (std::size_t i = 0; i < x.size(); ++i) residual += std::pow(y[i] - result.at(x[i]), 2);

  const double freedom = static_cast<double>(result.samples - 2);
  result.residual_std = std::sqrt(residual / freedom);
  result.r_squared = total > 0 ? 1 - residual / total : 1;
  result.t_quantile = student_t_limit(confidence, freedom);
  result.slope_interval =
      about(result.slope, result.t_quantile * result.residual_std / std::sqrt(result.spread));
  result.intercept_interval = result.line_interval(0);
  return result;
}

Interval LineFit::line_interval(double x) const {
  return about(at(x), t_quantile * residual_std * std::sqrt(leverage(*this, x)));
}

Interval LineFit::prediction_interval(double x) const {
  return about(at(x), t_quantile * residual_std * std::sqrt(1 + leverage(*this, x)));
}

}  // namespace tessera
