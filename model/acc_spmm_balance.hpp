// Acc-SpMM's load balancing: the work of thread blocks without balancing, and the weight of a
// thread block's share (formats/base/window_balance.hpp has the measure of imbalance).
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

/// The work of one thread block.
struct Share {
  std::int64_t tc_blocks = 0;    // TcBlockPerTB
  std::int64_t row_windows = 0;  // row windows that it writes, in whole or in part
};

/// The theoretical rates of the whole GPU.
struct Rates {
  double bytes_per_s = 0;
  double flops = 0;  // TF32 on tensor cores
};
/// The datasheet's rates, as in the paper. Throws Unsupported for a device without TF32.
Rates rates(const Device& device);

struct ShareTime {
  double load_b_s = 0;
  double mma_s = 0;
  double write_c_s = 0;

  double total() const { return load_b_s + mma_s + write_c_s; }
};

/// Equation 4 as printed; `n` is the feature dimension. The values are not seconds: the equation
/// divides elements by bytes per second.
ShareTime printed_time(const Share& share, std::int64_t n, const Rates& rates);

/// Equation 4 with bytes, all MMAs, and C written once for each row window.
ShareTime repaired_time(const Share& share, std::int64_t n, const Rates& rates);

/// The shares without balancing: one thread block per row window. `tc_blocks` and the result are
/// [row windows].
std::vector<Share> window_shares(std::span<const std::int64_t> tc_blocks);

/// The times of the shares by `time` / their mean. [thread blocks]
std::vector<double> relative_weights(std::span<const Share> shares, std::int64_t n,
                                     const Rates& rates,
                                     ShareTime (*time)(const Share&, std::int64_t,
                                                       const Rates&) = repaired_time);

}  // namespace tessera::acc_balance
