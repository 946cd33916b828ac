#include "model/calibration/microbenchmark.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace tessera {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

std::string Typical::text(const std::string& remark) const {
  return fmt::format("median of {}, middle half within {:.2g}%{}{}", count, 100 * spread,
                     remark.empty() ? "" : ", ", remark);
}

Typical typical(std::vector<double> samples) {
  assert(!samples.empty());
  std::ranges::sort(samples);
  const std::size_t last = samples.size() - 1;
  const double median = (samples[last / 2] + samples[last - last / 2]) / 2;
  return {median, (samples[last - last / 4] - samples[last / 4]) / median, samples.size()};
}

Finding finding(const std::string& quantity, const Typical& measured, const std::string& remark) {
  return {quantity, measured.median, measured.text(remark)};
}

double fitted_slope(const std::vector<double>& x, const std::vector<double>& y) {
  assert(x.size() == y.size() && x.size() >= 2);
  const double mean_x = mean(x), mean_y = mean(y);
  double products = 0, squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    products += (x[i] - mean_x) * (y[i] - mean_y);
    squares += (x[i] - mean_x) * (x[i] - mean_x);
  }
  assert(squares > 0);
  return products / squares;
}

double fitted_start(const std::vector<double>& x, const std::vector<double>& y) {
  return mean(y) - fitted_slope(x, y) * mean(x);
}

}  // namespace tessera
