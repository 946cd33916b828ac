// The line fit: a worked example, and intervals that hold planted values as often as their
// confidence says.
#include <doctest/doctest.h>

#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "model/line_fit.hpp"

namespace tessera {
namespace {

TEST_CASE("a fitted line and its intervals are those of a worked example") {
  const std::vector<double> x{1, 2, 3, 4, 5}, y{2.1, 3.9, 6.2, 7.8, 10.1};

  const LineFit line = fit_line(x, y);

  CHECK(line.slope == doctest::Approx(1.99));
  CHECK(line.intercept == doctest::Approx(0.05));
  CHECK(line.residual_std == doctest::Approx(std::sqrt(0.107 / 3)));
  CHECK(line.r_squared == doctest::Approx(1 - 0.107 / 39.708));
  CHECK(line.t_quantile == doctest::Approx(3.182446).epsilon(1e-6));  // t(0.975, 3), from tables
  const double half = 3.182446 * std::sqrt(0.107 / 3 / 10);
  CHECK(line.slope_interval.low == doctest::Approx(1.99 - half));
  CHECK(line.slope_interval.high == doctest::Approx(1.99 + half));
  const double intercept_half = 3.182446 * std::sqrt(0.107 / 3 * (1.0 / 5 + 9.0 / 10));
  CHECK(line.intercept_interval.high == doctest::Approx(0.05 + intercept_half));
  const double one_more = 3.182446 * std::sqrt(0.107 / 3 * (1 + 1.0 / 5 + 9.0 / 10));
  CHECK(line.prediction_interval(6).high == doctest::Approx(line.at(6) + one_more));
}

TEST_CASE("a line without scatter is found exactly") {
  const std::vector<double> x{1024, 3070, 9000, 130'000};
  std::vector<double> y;
  for (const double value : x) y.push_back(3.5 + 0.004 * value);

  const LineFit line = fit_line(x, y, 0.99);

  CHECK(line.slope == doctest::Approx(0.004));
  CHECK(line.intercept == doctest::Approx(3.5));
  CHECK(line.r_squared == doctest::Approx(1));
  CHECK(line.slope_interval.high - line.slope_interval.low < 1e-9);
}

/// Shares of the trials in which each interval holds the true value.
struct Coverage {
  double slope = 0, intercept = 0, one_more = 0, line = 0;
};

Coverage coverage(double confidence, int trials) {
  const double slope = 0.01, intercept = 5, scatter = 0.8;
  Coverage held;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> x, y;
    for (std::uint64_t i = 0; i < 12; ++i) {
      x.push_back(100.0 * static_cast<double>(i * i));
      y.push_back(intercept + slope * x[i] +
                  scatter * random_normal(1000 + static_cast<std::uint64_t>(trial), i));
    }
    const double next = 8'000, truth = intercept + slope * next;
    const double measured =
        truth + scatter * random_normal(1000 + static_cast<std::uint64_t>(trial), 12);

    const LineFit line = fit_line(x, y, confidence);

    held.slope += line.slope_interval.contains(slope);
    held.intercept += line.intercept_interval.contains(intercept);
    held.one_more += line.prediction_interval(next).contains(measured);
    held.line += line.line_interval(next).contains(truth);
  }
  for (double* share : {&held.slope, &held.intercept, &held.one_more, &held.line}) *share /= trials;
  return held;
}

TEST_CASE("intervals hold the planted values as often as their confidence says") {
  for (const double confidence : {0.5, 0.95}) {
    constexpr int kTrials = 4000;
    // Three standard deviations of a share that is right.
    const double off = 3 * std::sqrt(confidence * (1 - confidence) / kTrials);

    const Coverage held = coverage(confidence, kTrials);

    CHECK(std::abs(held.slope - confidence) < off);
    CHECK(std::abs(held.intercept - confidence) < off);
    CHECK(std::abs(held.one_more - confidence) < off);
    CHECK(std::abs(held.line - confidence) < off);
  }
}

TEST_CASE("pairs that determine no line with intervals are errors") {
  const std::vector<double> three{1, 2, 3}, two{1, 2}, same{2, 2, 2};
  const std::vector<double> broken{1, std::nan(""), 3};

  CHECK_THROWS_AS(fit_line(two, two), Error);
  CHECK_THROWS_AS(fit_line(three, two), Error);
  CHECK_THROWS_AS(fit_line(same, three), Error);
  CHECK_THROWS_AS(fit_line(three, broken), Error);
  CHECK_THROWS_AS(fit_line(three, three, 1), Error);
  CHECK(fit_line(three, same).r_squared == 1);
}

}  // namespace
}  // namespace tessera
