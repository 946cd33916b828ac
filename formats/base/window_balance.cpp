#include "formats/base/window_balance.hpp"

#include <cmath>
#include <numeric>

namespace tessera::acc_balance {

double ibd(std::span<const std::int64_t> tc_blocks) {
  if (tc_blocks.empty()) return 0;
  const auto windows = static_cast<double>(tc_blocks.size());
  const double mean =
      static_cast<double>(std::accumulate(tc_blocks.begin(), tc_blocks.end(), std::int64_t{0})) /
      windows;
  double sum = 0;
  for (const std::int64_t blocks : tc_blocks) sum += std::abs(static_cast<double>(blocks) - mean);
  return sum / windows;
}

}  // namespace tessera::acc_balance
