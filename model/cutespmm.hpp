// cuTeSpMM's analytic model: shared-memory transactions, operational intensity, the synergy of a
// matrix with tensor cores, and the resident thread blocks for its wave-aware load balance
// (formats/base/wave_balance.hpp).
//
// Source: cuTeSpMM, sections 4 (equations 1 to 5), 5 (6 and 7) and 6.4. A brick is 16 x 4 condensed
// columns of A, a transaction 128 bytes between shared memory and registers. Each count has two
// forms: that of the printed equation, in which a brick of A takes its maximum of four
// transactions, and an exact one for bricks of the mean density, which follows the text before the
// equation. The text's (N/8) brick_k loads of B per brick and nnz / (alpha brick_m brick_n) bricks
// are slips: its own equations 2 and 4 need N/32 and brick_k.
#pragma once

#include <cstdint>
#include <string>

#include "formats/base/wave_balance.hpp"
#include "model/device.hpp"

namespace tessera::cutespmm {

constexpr int kBrickRows = 16, kBrickCols = 4;
constexpr int kBlockCols = 16;         // TK: condensed columns of a block, four bricks wide
constexpr int kWarpCols = 32;          // TN: columns of C that a warp computes
constexpr int kThreadBlockCols = 128;  // columns of C that a thread block computes
constexpr int kTransactionBytes = 128;

struct Product {
  std::int64_t nnz = 0;
  double alpha = 0;           // density of a brick
  double beta = 1;            // mean bricks of a brick column: 1 for row panels one brick high
  std::int64_t n = 128;       // columns of B
  int warp_cols = kWarpCols;  // TN
};

/// Transactions between shared memory and registers, of 128 bytes each.
struct Transactions {
  double a = 0;
  double b = 0;

  double total() const { return a + b; }
};

/// Transactions by equations 1, 3 and 5. Throws an Error unless alpha is in [1/64, 1] and n, beta
/// and TN are positive. (The paper's least alpha is 1/16, a nonzero in every column of a brick; the
/// last brick of a row panel may have unused columns.)
Transactions printed_transactions(const Product& product);

/// Transactions of bricks of the mean density: ceil(64 alpha / 32) + 2 of A per brick and TN
/// columns, 4 rows of B per brick column. A matrix that mixes fuller and emptier bricks may need
/// more. Throws as printed_transactions.
Transactions exact_transactions(const Product& product);

/// FLOP per transaction, 2 N nnz / transactions: equation 4, which is 512 alpha for the printed
/// form with TN = 32 and beta = 1.
double operational_intensity(const Product& product, const Transactions& transactions);

/// FLOP per byte from FLOP per transaction: 4 alpha where equation 4 gives 512 alpha.
inline double per_byte(double flop_per_transaction) {
  return flop_per_transaction / kTransactionBytes;
}

/// A class of section 6.4. The paper classes by alpha and then gives intensities that do not follow
/// from its equation 4: 32 to 64 FLOP per transaction for medium and more for high, which is 256
/// alpha. By 512 alpha they are 64 to 128 and more.
struct Synergy {
  std::string name;              // low, medium, high
  double least_alpha = 0;        // inclusive
  double least_intensity = 0;    // 512 least_alpha
  double printed_intensity = 0;  // the intensity that section 6.4 prints instead
};

/// The class of alpha: low below 12.5 %, medium below 25 %, high from 25 % on.
const Synergy& synergy(double alpha);

/// The number of thread blocks that a device holds at a time by its limits on threads, thread
/// blocks and shared memory; registers, which only the compiled kernel determines, do not count.
/// `n` columns of B take ceil(n / 32) warps, at most four.
std::int64_t resident_thread_blocks(std::int64_t n, const Device& device);

}  // namespace tessera::cutespmm
