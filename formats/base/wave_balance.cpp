#include "formats/base/wave_balance.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "formats/base/check.hpp"

namespace tessera::cutespmm {

std::vector<double> num_loads(std::span<const std::int64_t> blocks) {
  const std::int64_t total = std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
  std::vector<double> loads(blocks.size(), 0);
  if (total == 0) return loads;
  const double mean = static_cast<double>(total) / static_cast<double>(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) loads[i] = static_cast<double>(blocks[i]) / mean;
  return loads;
}

std::int64_t num_waves(std::int64_t thread_blocks, std::int64_t resident) {
  require(thread_blocks >= 0 && resident > 0, "{} thread blocks cannot run {} at a time",
          thread_blocks, resident);
  return (thread_blocks + resident - 1) / resident;
}

std::vector<Partition> partitions(std::span<const std::int64_t> blocks, std::int64_t waves) {
  std::vector<Partition> result(blocks.size());
  if (waves == 0) return result;
  const std::vector<double> loads = num_loads(blocks);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    result[i].ratio = loads[i] / static_cast<double>(waves);
    const auto parts = static_cast<std::int64_t>(std::ceil(result[i].ratio));
    result[i].parts = std::max<std::int64_t>(1, std::min(parts, blocks[i]));
  }
  return result;
}

}  // namespace tessera::cutespmm
