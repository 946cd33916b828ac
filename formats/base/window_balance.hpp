// How uneven row windows are, and when Acc-SpMM rebalances them (section 3.5, equation 3).
//
// Here because the kernel goes by it and the model counts with it.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::acc_balance {

constexpr double kImbalanced = 8;  // IBD above which a matrix is rebalanced

/// Equation 3: mean of |TC blocks of a window - their mean|; 0 without a window.
double ibd(std::span<const std::int64_t> tc_blocks);

/// Whether the matrix is to be rebalanced: IBD above 8, strictly.
inline bool is_imbalanced(double ibd) { return ibd > kImbalanced; }

}  // namespace tessera::acc_balance
