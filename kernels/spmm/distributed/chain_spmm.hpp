// A chain of products on several GPUs, B of each the C of the one before: X <- alpha A X, with a
// square A. The rows of the next B that other parts need travel while the rest of C is computed.
//
// A part's rows that another one needs are its boundary; they are computed first, in pieces, and a
// piece travels while those behind it and the rest are multiplied. A product begins when all of its
// B is there, so that it has one sum for each element, over the columns whose rows of B the part
// owns and then those that reach it: the first exchange alone hides behind nothing. A product by
// itself (distributed_spmm.hpp) has two sums, and reads and writes C twice in the rows that need
// rows of B from elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/spmm/distributed/distributed_spmm.hpp"

namespace tessera {

/// Rows of a part that are multiplied together, and travel together.
struct ChainPiece {
  std::vector<std::int32_t> rows = {};  // [R] places in the part's rows, ascending
  CsrMatrix a = {};                     // [R x rows of the part + received]
  std::vector<PeerRows> sends = {};     // places in the part's `sent_rows`
  std::vector<PeerRows> receives = {};  // places behind the part's rows
};

/// A part's share of a chain. X has its rows, and behind them those that it receives.
struct ChainPart {
  int part = 0;
  std::vector<std::int32_t> rows = {};       // [M_p] of A, ascending
  std::int64_t received = 0;                 // rows of X that other parts own
  std::vector<std::int32_t> sent_rows = {};  // places in `rows`, by receiver, ascending for each
  std::vector<ChainPiece> pieces = {};       // of the boundary, then the others, which stay
};

/// The part of a chain whose boundary has up to `pieces` pieces, alike in rows. Throws an Error for
/// an A that is not square, pieces < 1, and a distribution that gathers all of B.
ChainPart chain_part(const CsrMatrix& a, const Distribution& distribution, int part, int pieces);

/// One product of a chain as an SpmmKernel that reads A in CSR: its emulation and bounds.
class ChainSpmm final : public SpmmKernel {
 public:
  static constexpr int kPieces = 4;  // of a boundary

  /// For an X of n columns. The exchange is Exchange::kNeeded whatever the options say. Throws as
  /// DistributedSpmm, and Unsupported for a kernel whose B and C are of different types.
  ChainSpmm(DistributedOptions options, std::int64_t n, int pieces = kPieces);

  std::string format() const override { return kernel_.format(); }
  int version() const override { return kernel_.version(); }
  Arithmetic arithmetic() const override { return kernel_.kernel().arithmetic(); }
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override;
  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override;

  /// A part's rows of A X, before C's type rounds them. `x` [M_p + received x n].
  DenseMatrix emulate_sums(const ChainPart& part, const DenseMatrix& x,
                           const Generation& generation) const;
  /// A part's rows of alpha A X, in X's type. `x` [M_p + received x n].
  DenseMatrix emulate_part(const ChainPart& part, const DenseMatrix& x,
                           const Generation& generation, float alpha) const;

  /// A part's rows of X after `products` products, over a communicator for memory of the host:
  /// `own` [M_p x n] are those before.
  DenseMatrix run_on_host(const CsrMatrix& a, const DenseMatrix& own, int products, float alpha,
                          const Generation& generation, Communicator& comm) const;

  const DistributedOptions& options() const { return kernel_.options(); }
  const DistributedSpmm& kernel() const { return kernel_; }
  int pieces() const { return pieces_; }

 private:
  DistributedSpmm kernel_;
  std::int64_t n_;
  int pieces_;
};

}  // namespace tessera
