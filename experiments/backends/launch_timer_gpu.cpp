#include "experiments/backends/launch_timer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

#include "formats/base/device_event.hpp"

namespace tessera {
namespace {

constexpr double kLeastBatchUs = 100;

bool quiet(const std::vector<double>& samples, double noise) {
  const auto n = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  return std::sqrt(squares / (n - 1) / n) < noise * mean;
}

std::size_t twice_the_l2() {
  int device = 0, l2_bytes = 0;
  cuda_check(cudaGetDevice(&device), "asking for the device");
  cuda_check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device),
             "asking for the L2 size");
  return 2 * static_cast<std::size_t>(l2_bytes);
}

}  // namespace

L2Flush::L2Flush() : buffer_(twice_the_l2()) {}

void L2Flush::overwrite(cudaStream_t stream) {
  cuda_check(cudaMemsetAsync(buffer_.data(), 0xa5, buffer_.size(), stream), "flushing");
}

TimeSummary time_launches(const std::function<void(cudaStream_t)>& launch, const MeasureRule& rule,
                          cudaStream_t stream) {
  std::optional<L2Flush> flush;
  if (rule.l2 == "flush") flush.emplace();
  DeviceEvent start, stop;
  const auto batch_us = [&](std::int64_t launches) {
    if (flush) flush->overwrite(stream);
    start.record(stream);
    for (std::int64_t i = 0; i < launches; ++i) launch(stream);
    stop.record(stream);
    return stop.us_since(start) / static_cast<double>(launches);
  };

  const auto seconds_since = [](std::chrono::steady_clock::time_point began) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  double once_us = batch_us(1);
  const auto warming = std::chrono::steady_clock::now();
  for (std::int64_t i = 1; i < rule.warmup && seconds_since(warming) < rule.max_seconds; ++i)
    once_us = batch_us(1);
  const std::int64_t launches =
      flush ? 1 : static_cast<std::int64_t>(std::ceil(kLeastBatchUs / std::max(once_us, 1.0)));

  std::vector<double> samples;
  const auto began = std::chrono::steady_clock::now();
  const std::int64_t least = std::max<std::int64_t>(rule.min_samples, 2);
  while (static_cast<std::int64_t>(samples.size()) < std::max(rule.max_samples, least)) {
    samples.push_back(batch_us(launches));
    const bool enough = static_cast<std::int64_t>(samples.size()) >= least;
    if (enough && (quiet(samples, rule.noise) || seconds_since(began) > rule.max_seconds)) break;
  }
  return summarise(std::move(samples), launches);
}

}  // namespace tessera
