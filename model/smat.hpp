// SMaT's performance model: the time of a product is linear in the number of blocks of BCSR.
//
// Source: SMaT's poster, T_tot = T_e n_e + T_init: T_e is the time of a block, n_e the number of
// blocks, T_init launch, initialisation and warm-up. Its bounds on n_e are printed garbled and
// restored here; the refined bounds and the scaling with N are ours. line_fit.hpp fits T_e and
// T_init to measured times.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::smat {

constexpr int kMmaCols = 8;  // columns of B that one MMA of a block covers: N = 8 on the poster

/// Inclusive bounds on n_e.
struct BlockBounds {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
};

/// ceil(nnz / (h w)) <= n_e <= min(nnz, ceil(M / h) ceil(K / w)) for blocks of h x w. Throws an
/// Error unless h and w are positive.
BlockBounds printed_bounds(std::int64_t rows, std::int64_t cols, std::int64_t nnz, int h, int w);

/// Bounds from `active_cols` [ceil(M / h)], the number of columns in which each block row has a
/// nonzero: a block row with c of them has at least ceil(c / w) and at most min(c, ceil(K / w))
/// blocks. Never wider than the printed bounds. Throws an Error unless w is positive.
BlockBounds refined_bounds(std::span<const std::int64_t> active_cols, std::int64_t cols, int w);

/// T_e for n columns of B in units of T_e for eight of them: ceil(n / 8) MMAs per block.
std::int64_t mma_columns(std::int64_t n);

}  // namespace tessera::smat
