#include "model/smat.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "formats/base/check.hpp"

namespace tessera::smat {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

Interval about(double centre, double half_width) {
  return {centre - half_width, centre + half_width};
}

/// Variance of the line at so many blocks, in units of the residual variance.
double leverage(const Fit& fit, double blocks) {
  const double distance = blocks - fit.mean_blocks;
  return 1 / static_cast<double>(fit.samples) + distance * distance / fit.spread;
}

void check(std::span<const double> blocks, std::span<const double> times, double confidence) {
  require(blocks.size() == times.size(), "{} numbers of blocks, but {} times", blocks.size(),
          times.size());
  require(blocks.size() >= 3, "a line with intervals needs three pairs, there are {}",
          blocks.size());
  require(confidence > 0 && confidence < 1, "confidence is {}, it lies between 0 and 1",
          confidence);
  const auto finite = [](double value) { return std::isfinite(value); };
  require(std::ranges::all_of(blocks, finite) && std::ranges::all_of(times, finite),
          "numbers of blocks and times have to be finite");
  const auto [least, most] = std::ranges::minmax(blocks);
  require(least < most, "all pairs have {} blocks: no slope can be told", least);
}

}  // namespace

BlockBounds printed_bounds(std::int64_t rows, std::int64_t cols, std::int64_t nnz, int h, int w) {
  require(h > 0 && w > 0, "a block cannot be {} x {}", h, w);
  return {ceil_div(nnz, std::int64_t{h} * w), std::min(nnz, ceil_div(rows, h) * ceil_div(cols, w))};
}

BlockBounds refined_bounds(std::span<const std::int64_t> active_cols, std::int64_t cols, int w) {
  require(w > 0, "a block cannot be {} wide", w);
  BlockBounds bounds;
  for (const std::int64_t active : active_cols) {
    bounds.lower += ceil_div(active, w);
    bounds.upper += std::min(active, ceil_div(cols, w));
  }
  return bounds;
}

std::int64_t mma_columns(std::int64_t n) { return ceil_div(n, kMmaCols); }

double total_time(double time_per_block, double blocks, double init, std::int64_t n) {
  return time_per_block * static_cast<double>(mma_columns(n)) * blocks + init;
}

Fit fit(std::span<const double> blocks, std::span<const double> times, double confidence) {
  check(blocks, times, confidence);
  Fit result{.confidence = confidence,
             .samples = static_cast<std::int64_t>(blocks.size()),
             .mean_blocks = mean(blocks)};
  const double mean_time = mean(times);
  double together = 0, total = 0, residual = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const double x = blocks[i] - result.mean_blocks, y = times[i] - mean_time;
    result.spread += x * x;
    together += x * y;
    total += y * y;
  }
  result.time_per_block = together / result.spread;
  result.init = mean_time - result.time_per_block * result.mean_blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    residual += std::pow(times[i] - result.at(blocks[i]), 2);

  const double freedom = static_cast<double>(result.samples - 2);
  result.residual_std = std::sqrt(residual / freedom);
  result.r_squared = total > 0 ? 1 - residual / total : 1;
  const boost::math::students_t student(freedom);
  result.t_quantile = boost::math::quantile(boost::math::complement(student, (1 - confidence) / 2));
  result.time_per_block_interval = about(
      result.time_per_block, result.t_quantile * result.residual_std / std::sqrt(result.spread));
  result.init_interval = result.line_interval(0);
  return result;
}

Interval Fit::line_interval(double blocks) const {
  return about(at(blocks), t_quantile * residual_std * std::sqrt(leverage(*this, blocks)));
}

Interval Fit::prediction_interval(double blocks) const {
  return about(at(blocks), t_quantile * residual_std * std::sqrt(1 + leverage(*this, blocks)));
}

}  // namespace tessera::smat
