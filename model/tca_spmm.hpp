// TCA-SpMM's number of MMAs, and that of 8 x 8 condensed tiles for comparison.
//
// Source: TCA-SpMM, section 4 (equations 1 and 2; our copy lacks them, they are derived from the
// prose and checked against its worked rows and ratios). A row of A is a dot product with columns
// of B: its nonzeros fill the k x n right operand column by column, the columns of B lie in n x k
// blocks of the m x k left one, and an element of C is the trace of an n x n block of the result.
// So n of the n^2 products of a block are needed: at most 1/n of the tensor cores' work is useful,
// an eighth with m16n8k8.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::tca {

struct MmaShape {
  int m = 16;
  int n = 8;
  int k = 8;

  std::int64_t products() const { return std::int64_t{m} * n * k; }
};

/// The MMAs of equation 1, exact: the sum over rows of ceil(nnz_i / (k n)) ceil(N / (m / n)), every
/// row in whole fragments. `row_lengths` [rows]. Throws an Error unless N is positive and n divides
/// m.
std::int64_t whole_fragment_mma(std::span<const std::int64_t> row_lengths, std::int64_t n,
                                const MmaShape& shape = {});

/// The MMAs of equation 1, approximately: nnz N / (m k).
double approximate_mma(double nnz, double n, const MmaShape& shape = {});

/// MMAs of one row with m16n8k8, equation 2. A row of up to 8, 16, 32 or more nonzeros fills p = 1,
/// 2, 4 or 8 columns of the right operand, which then holds columns for 16, 8, 4 or 2 elements of
/// C. The paper's four cases as one formula: ceil(nnz_i / (8 p)) ceil(N p / 16), with p the least
/// power of two that is at least ceil(nnz_i / 8), and at most 8. Throws an Error unless N is
/// positive.
std::int64_t row_mma(std::int64_t row_length, std::int64_t n);

/// The sum of row_mma over all rows. `row_lengths` [rows]
std::int64_t matrix_mma(std::span<const std::int64_t> row_lengths, std::int64_t n);

/// nnz N needed products / the products of `mma` MMAs; 0 without MMAs. Never above 1 / shape.n.
double useful_fraction(std::int64_t nnz, std::int64_t n, std::int64_t mma,
                       const MmaShape& shape = {});

/// The MMAs of 8-row windows of condensed columns in 8 x 8 tiles, 16 columns of B per MMA
/// (DTC-SpMM's swapped operands, as in Acc-SpMM): the sum over windows of ceil(c_w / 8) ceil(N /
/// 16). `active_cols` [8-row windows] holds c_w. Throws an Error unless N is positive. Every active
/// column has a nonzero, so ceil(c_w / 8) <= sum over its rows of ceil(nnz_i / 8), and these tiles
/// never need more MMAs than TCA-SpMM where N is a multiple of 16. For other N TCA-SpMM packs the
/// last columns of B more tightly and can need fewer.
std::int64_t condensed_tile_mma(std::span<const std::int64_t> active_cols, std::int64_t n);

}  // namespace tessera::tca
