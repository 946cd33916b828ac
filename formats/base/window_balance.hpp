// The imbalance of row windows, when Acc-SpMM rebalances them, and the weight of a window that is
// written (section 3.5, equations 3 and 4).
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

/// The time of writing a row window of C over that of a TC block: loading its rows of B, and its
/// MMAs (Acc-SpMM, section 3.5, equation 4 as model/acc_spmm_balance.hpp repairs it, which does not
/// depend on N). By the paper's rates of an H100, 3.35 TB/s and 494.7 TFLOPS; those of its A800 and
/// RTX 4090 give 0.96.
constexpr double kWindowWeight = 0.975;

/// True when the matrix is to be rebalanced: IBD strictly above 8.
inline bool is_imbalanced(double ibd) { return ibd > kImbalanced; }

}  // namespace tessera::acc_balance
