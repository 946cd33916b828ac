#include "model/cutespmm.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/base/check.hpp"

namespace tessera::cutespmm {
namespace {

constexpr double kBrickCells = kBrickRows * kBrickCols;
constexpr double kTransactionWords = kTransactionBytes / 4.0;
constexpr double kPatternTransactions = 2;  // 64 bits per lane of a warp

void check(const Product& p) {
  require(p.alpha >= 1 / kBrickCells && p.alpha <= 1,
          "brick density alpha is {}: it has to lie between 1/64 and 1, as a brick has a nonzero",
          p.alpha);
  require(p.n > 0 && p.warp_cols > 0 && p.beta > 0,
          "n = {}, TN = {} and beta = {} have to be positive", p.n, p.warp_cols, p.beta);
}

double bricks(const Product& p) { return static_cast<double>(p.nnz) / (p.alpha * kBrickCells); }

double b_transactions(const Product& p) {
  return bricks(p) / p.beta * kBrickCols * static_cast<double>(p.n) / kTransactionWords;
}

}  // namespace

Transactions printed_transactions(const Product& p) {
  check(p);
  const double of_full_brick = kBrickCells / kTransactionWords + kPatternTransactions;
  return {of_full_brick * bricks(p) * static_cast<double>(p.n) / p.warp_cols, b_transactions(p)};
}

Transactions exact_transactions(const Product& p) {
  check(p);
  const double of_brick =
      std::ceil(p.alpha * kBrickCells / kTransactionWords) + kPatternTransactions;
  const std::int64_t warps = (p.n + p.warp_cols - 1) / p.warp_cols;
  return {of_brick * bricks(p) * static_cast<double>(warps), b_transactions(p)};
}

double operational_intensity(const Product& p, const Transactions& transactions) {
  if (transactions.total() == 0) return 0;
  return 2.0 * static_cast<double>(p.n) * static_cast<double>(p.nnz) / transactions.total();
}

const Synergy& synergy(double alpha) {
  static const std::array<Synergy, 3> classes{
      {{"low", 0, 0, 0}, {"medium", 0.125, 64, 32}, {"high", 0.25, 128, 64}}};
  return *std::ranges::find_if(classes.rbegin(), classes.rend() - 1,
                               [&](const Synergy& s) { return alpha >= s.least_alpha; });
}

std::int64_t resident_thread_blocks(std::int64_t n, const Device& device) {
  require(n > 0, "B has {} columns", n);
  const std::int64_t cols = std::min<std::int64_t>(n, kThreadBlockCols);
  const std::int64_t warps = (cols + kWarpCols - 1) / kWarpCols;
  const double threads = 32.0 * static_cast<double>(warps);
  // A block of A and the rows of B of its columns.
  const double shared = 4.0 * kBlockCols * static_cast<double>(kBrickRows + cols);
  const double per_sm = std::min({device.value("thread_blocks_per_sm"),
                                  std::floor(device.value("threads_per_sm") / threads),
                                  std::floor(device.value("shared_per_sm") / shared)});
  return static_cast<std::int64_t>(per_sm * device.value("sm_count"));
}

}  // namespace tessera::cutespmm
