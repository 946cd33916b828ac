#include "experiments/backends/time_summary.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera {

TimeSummary summarise(std::vector<double> samples, std::int64_t launches_per_sample) {
  std::ranges::sort(samples);
  const auto n = samples.size();
  // The value with a share p of the samples below it, between the two nearest.
  const auto quantile = [&](double p) {
    const double place = p * static_cast<double>(n - 1);
    const auto below = static_cast<std::size_t>(place);
    const double rest = place - static_cast<double>(below);
    return samples[below] * (1 - rest) + samples[std::min(below + 1, n - 1)] * rest;
  };
  TimeSummary time;
  time.samples = static_cast<std::int64_t>(n);
  time.launches_per_sample = launches_per_sample;
  time.median = quantile(0.5);
  time.p5 = quantile(0.05);
  time.p95 = quantile(0.95);
  time.min = samples.front();
  time.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(n);
  for (const double sample : samples)
    time.stddev += (sample - time.mean) * (sample - time.mean) / static_cast<double>(n);
  time.stddev = std::sqrt(time.stddev);
  return time;
}

}  // namespace tessera
