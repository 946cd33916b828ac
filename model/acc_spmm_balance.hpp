// Acc-SpMM's load balancing: how uneven the row windows are, whether to rebalance, and what a
// thread block's share weighs.
//
// Source: Acc-SpMM, section 3.5, equations 3 and 4. Equation 4 as printed lacks the bytes of a
// float, does not multiply the MMA time by the TC blocks, and writes C back once per TC block; the
// repaired form has all three right. Bandwidth and FLOPS are those of the whole GPU, so a time is
// only a weight of one thread block against another. M (2K - 1) counts K products and K - 1 sums.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/window_balance.hpp"
#include "model/device.hpp"

namespace tessera::acc_balance {

constexpr int kTileRows = 8, kTileCols = 8;  // M and K of the swapped operands
constexpr int kMaxBlocks = 32;               // TC blocks of a thread block at most

/// What one thread block works on.
struct Share {
  std::int64_t tc_blocks = 0;    // TcBlockPerTB
  std::int64_t row_windows = 0;  // that it writes, in whole or in part
};

/// What the GPU does a second, in theory.
struct Rates {
  double bytes_per_s = 0;
  double flops = 0;  // TF32 on tensor cores
};
/// From the datasheet, as in the paper. Throws Unsupported for a device without TF32.
Rates rates(const Device& device);

struct ShareTime {
  double load_b_s = 0;
  double mma_s = 0;
  double write_c_s = 0;

  double total() const { return load_b_s + mma_s + write_c_s; }
};

/// Equation 4 as printed, `n` the feature dimension. Its seconds are none: elements over bytes.
ShareTime printed_time(const Share& share, std::int64_t n, const Rates& rates);

/// Equation 4 with bytes, all MMAs, and C written once for each row window.
ShareTime repaired_time(const Share& share, std::int64_t n, const Rates& rates);

/// Without balancing: a thread block for each row window. [row windows]
std::vector<Share> window_shares(std::span<const std::int64_t> tc_blocks);

/// Times by either form / their mean. [thread blocks]
std::vector<double> relative_weights(std::span<const Share> shares, std::int64_t n,
                                     const Rates& rates,
                                     ShareTime (*time)(const Share&, std::int64_t,
                                                       const Rates&) = repaired_time);

}  // namespace tessera::acc_balance
