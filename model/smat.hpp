// SMaT's performance model: the time of a product is linear in the blocks of BCSR.
//
// Source: SMaT's poster, T_tot = T_e n_e + T_init: T_e is the time of a block, n_e their number,
// T_init launch, initialisation and warming up. Its bounds on n_e are printed garbled and restored
// here; the refined ones, the scaling with N and the intervals of the fit are ours. The fit is that
// of ordinary least squares (Draper and Smith, Applied Regression Analysis, chapters 1 and 3): it
// takes the scatter of the times for independent and equally wide at every n_e.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::smat {

constexpr int kMmaCols = 8;  // columns of B that one MMA of a block covers: N = 8 on the poster

struct BlockBounds {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
};

/// ceil(nnz / (h w)) <= n_e <= min(nnz, ceil(M / h) ceil(K / w)). Throws an Error unless h and w
/// are positive.
BlockBounds printed_bounds(std::int64_t rows, std::int64_t cols, std::int64_t nnz, int h, int w);

/// From the columns that each block row has a nonzero in: a block row of c has at least ceil(c / w)
/// blocks and at most min(c, ceil(K / w)). Never wider than the printed bounds.
/// `active_cols` [ceil(M / h)]
BlockBounds refined_bounds(std::span<const std::int64_t> active_cols, std::int64_t cols, int w);

/// Columns of B in units of what one MMA covers, ceil(N / 8): T_e grows with it.
std::int64_t mma_columns(std::int64_t n);

/// T_tot = T_e n_e + T_init, with T_e that of N = 8 times mma_columns(n).
double total_time(double time_per_block, double blocks, double init, std::int64_t n = kMmaCols);

struct Interval {
  double low = 0;
  double high = 0;

  bool contains(double value) const { return low <= value && value <= high; }
};

/// T_e and T_init of measured pairs, and how sure of them one can be.
struct Fit {
  double time_per_block = 0;           // T_e, in the unit of the times
  double init = 0;                     // T_init
  Interval time_per_block_interval{};  // Student's t with `samples` - 2 degrees of freedom
  Interval init_interval{};
  double r_squared = 0;     // share of the variance that the line explains; 1 when there is none
  double residual_std = 0;  // of the times about the line
  double confidence = 0;
  std::int64_t samples = 0;

  double at(double blocks) const { return init + time_per_block * blocks; }
  /// Where the line itself lies at so many blocks.
  Interval line_interval(double blocks) const;
  /// Where one more measurement falls.
  Interval prediction_interval(double blocks) const;

  double mean_blocks = 0;  // of the fitted pairs
  double spread = 0;       // sum of (n_e - mean_blocks)^2
  double t_quantile = 0;   // two-sided
};

/// Throws an Error unless there are three pairs or more of finite numbers, two different n_e among
/// them, and the confidence is in (0, 1).
Fit fit(std::span<const double> blocks, std::span<const double> times, double confidence = 0.95);

}  // namespace tessera::smat
