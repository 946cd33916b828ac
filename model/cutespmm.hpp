// cuTeSpMM's analytic model: shared-memory transactions, operational intensity, the synergy of a
// matrix with tensor cores, and the thread blocks that its wave-aware load balance counts
// (formats/base/wave_balance.hpp has the balance itself).
//
// Source: cuTeSpMM, sections 4 (equations 1 to 5), 5 (6 and 7) and 6.4. A brick is 16 x 4 condensed
// columns of A, a transaction 128 bytes between shared memory and registers. Two forms of each
// count: as the paper prints it, where a brick of A takes its maximum of four transactions, and
// exact for bricks of the mean density, with what the text before the equation says. The text's
// (N/8) brick_k loads of B a brick and nnz / (alpha brick_m brick_n) bricks are slips: its own
// equations 2 and 4 need N/32 and brick_k.
#pragma once

#include <cstdint>
#include <string>

#include "formats/base/wave_balance.hpp"
#include "model/device.hpp"

namespace tessera::cutespmm {

constexpr int kBrickRows = 16, kBrickCols = 4;
constexpr int kBlockCols = 16;         // TK: condensed columns of a block, four bricks wide
constexpr int kWarpCols = 32;          // TN: columns of C a warp computes
constexpr int kThreadBlockCols = 128;  // columns of C a thread block computes
constexpr int kTransactionBytes = 128;

struct Product {
  std::int64_t nnz = 0;
  double alpha = 0;           // density of a brick
  double beta = 1;            // bricks of a brick column: 1 for row panels one brick high
  std::int64_t n = 128;       // columns of B
  int warp_cols = kWarpCols;  // TN
};

/// Between shared memory and registers, 128 bytes each.
struct Transactions {
  double a = 0;
  double b = 0;

  double total() const { return a + b; }
};

/// Equations 1, 3 and 5. Throws an Error unless alpha is in [1/64, 1] and n, beta and TN are
/// positive. (The paper's least alpha is 1/16, a nonzero in every column of a brick; the last brick
/// of a row panel may have columns to spare.)
Transactions printed_transactions(const Product& product);

/// ceil(64 alpha / 32) + 2 transactions of A a brick and TN columns, 4 rows of B a brick column.
/// Of bricks of the mean density: a matrix that mixes fuller and emptier ones may need more.
Transactions exact_transactions(const Product& product);

/// FLOP per transaction, 2 N nnz over their number: equation 4, 512 alpha for the printed form with
/// TN = 32 and beta = 1.
double operational_intensity(const Product& product, const Transactions& transactions);

/// FLOP per byte: 4 alpha where equation 4 says 512 alpha.
inline double per_byte(double flop_per_transaction) {
  return flop_per_transaction / kTransactionBytes;
}

/// Section 6.4. The paper classes by alpha and then names intensities that do not follow from its
/// equation 4: medium is said to be 32 to 64 FLOP a transaction, and high more, which is 256 alpha.
/// By 512 alpha they are 64 to 128 and more.
struct Synergy {
  std::string name;              // low, medium, high
  double least_alpha = 0;        // inclusive
  double least_intensity = 0;    // 512 least_alpha
  double printed_intensity = 0;  // what section 6.4 says in its place
};

/// By alpha alone: low below 12.5 %, medium below 25 %, high from there.
const Synergy& synergy(double alpha);

/// Thread blocks a device holds at a time by its limits on threads, thread blocks and shared
/// memory; registers, which only the compiled kernel knows, are left out. `n` columns of B make
/// ceil(n / 32) warps, four at most.
std::int64_t resident_thread_blocks(std::int64_t n, const Device& device);

}  // namespace tessera::cutespmm
