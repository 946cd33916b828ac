#include "oracle/log_histogram.hpp"

#include <limits>
#include <numeric>

namespace tessera {

void LogHistogram::add(const LogHistogram& other) {
  if (other.counts_.empty()) return;
  if (counts_.empty()) counts_.resize(other.counts_.size());
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::int64_t LogHistogram::count() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

double LogHistogram::quantile(int percent) const {
  const std::int64_t all = count();
  if (all == 0) return 0;
  const std::int64_t rank = std::max<std::int64_t>(1, (all * percent + 99) / 100);
  std::int32_t place = 0;
  for (std::int64_t seen = counts_[0]; seen < rank; seen += counts_[place]) ++place;
  if (place == 0) return 0;
  if (place == kInfinite) return std::numeric_limits<double>::infinity();
  return std::bit_cast<double>((place + kZero) << kDropped);
}

}  // namespace tessera
