#include "model/acc_spmm_balance.hpp"

#include <numeric>

#include "formats/base/check.hpp"

namespace tessera::acc_balance {
namespace {

constexpr double kFloatBytes = 4;
constexpr double kOperationsPerColumn = kTileRows * (2.0 * kTileCols - 1);  // M (2K - 1)

}  // namespace

Rates rates(const Device& device) {
  return {1e9 * device.value("dram_bandwidth", Ceilings::kDatasheet),
          1e12 * device.value("tf32", Ceilings::kDatasheet)};
}

ShareTime printed_time(const Share& share, std::int64_t n, const Rates& rates) {
  const double columns = static_cast<double>(n);
  const double moved = kTileCols * columns * static_cast<double>(share.tc_blocks);
  return {moved / rates.bytes_per_s, kOperationsPerColumn * columns / rates.flops,
          moved / rates.bytes_per_s};
}

ShareTime repaired_time(const Share& share, std::int64_t n, const Rates& rates) {
  const double columns = static_cast<double>(n);
  const auto blocks = static_cast<double>(share.tc_blocks);
  const auto windows = static_cast<double>(share.row_windows);
  return {kFloatBytes * kTileCols * columns * blocks / rates.bytes_per_s,
          kOperationsPerColumn * columns * blocks / rates.flops,
          kFloatBytes * kTileRows * columns * windows / rates.bytes_per_s};
}

std::vector<Share> window_shares(std::span<const std::int64_t> tc_blocks) {
  std::vector<Share> shares;
  shares.reserve(tc_blocks.size());
  for (const std::int64_t blocks : tc_blocks) shares.push_back({blocks, 1});
  return shares;
}

std::vector<double> relative_weights(std::span<const Share> shares, std::int64_t n,
                                     const Rates& rates,
                                     ShareTime (*time)(const Share&, std::int64_t, const Rates&)) {
  require(n > 0, "B has {} columns", n);
  std::vector<double> weights;
  weights.reserve(shares.size());
  for (const Share& share : shares) weights.push_back(time(share, n, rates).total());
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (sum > 0)
    for (double& weight : weights) weight *= static_cast<double>(weights.size()) / sum;
  return weights;
}

}  // namespace tessera::acc_balance
