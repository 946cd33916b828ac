// The imbalance of row windows, and when Acc-SpMM rebalances them (section 3.5, equation 3).
//
// The code is here because the kernel and the model both use it.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::acc_balance {

constexpr double kImbalanced = 8;  // IBD above which a matrix is rebalanced

/// IBD, equation 3: the mean over the windows of |TC blocks of the window - mean TC blocks|; 0
/// without a window. `tc_blocks` [row windows]
double ibd(std::span<const std::int64_t> tc_blocks);

/// True when the matrix is to be rebalanced: IBD strictly above 8.
inline bool is_imbalanced(double ibd) { return ibd > kImbalanced; }

}  // namespace tessera::acc_balance
