// C = A B on several GPUs by CAGNET's 1.5D algorithm (Tripathy, Yelick and Buluc, SC 2020, section
// IV-B), a baseline: B and C are kept in `copies` copies, and each rank multiplies a part of the
// columns of its rows of A, so that fewer rows of B travel and partial sums of C do instead.
//
// The ranks are a grid of groups x copies. Group i owns block i of the rows of A, B and C, and all
// of its ranks have these rows of B and C. Rank (i, j) multiplies A's rows of block i by share j of
// B: the j-th piece of every group's rows of B, which travel within column j of the grid. The ranks
// of a group then add their sums of C, each those of a slice of the rows, and give the slices to
// each other. Departures: blocks of rows are alike in nonzeros; the blocks of B are cut in place of
// dealt, so that copies need not divide groups; all of a share is gathered before one product, in
// place of one product for each broadcast; sums are added in the order of the copies, so that all
// bits are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/base/params.hpp"
#include "kernels/spmm/distributed/communicator.hpp"
#include "kernels/spmm/distributed/split.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {

struct ReplicatedOptions {
  int parts = 4;   // ranks
  int copies = 2;  // of B and C; divides `parts`
  /// The kernel of every rank, with its parameters and those of its format. B and C are in FP32.
  std::string kernel = "csr_spmm";
  Params::Given params = {};
  Params::Given format = {};

  int groups() const { return parts / copies; }
};

/// Rows [first, first + count).
struct RowRange {
  std::int64_t first = 0, count = 0;

  /// The `number`-th of `pieces` pieces of it, alike in rows.
  RowRange piece(int number, int pieces) const;
};

/// The rows of a rank's share of B that it has itself.
struct OwnPiece {
  std::int64_t first = 0;  // in its rows of B,
  std::int64_t place = 0;  // and in its share
  std::int64_t count = 0;
};

/// Blocks of rows that a rank sends and receives in one exchange.
struct RowMoves {
  std::vector<PeerRows> sends = {}, receives = {};
};

/// Which rank has what. Each can find it from A and the options alone.
class ReplicatedLayout {
 public:
  /// Throws an Error for copies that do not divide the parts.
  ReplicatedLayout(const CsrMatrix& a, const ReplicatedOptions& options);

  int group_of(int rank) const { return rank / copies_; }
  int copy_of(int rank) const { return rank % copies_; }
  /// The rows of A and C, and those of B, that a rank has.
  const RowRange& rows(int rank) const { return rows_[index(rank)]; }
  const RowRange& b_rows(int rank) const { return b_rows_[index(rank)]; }
  /// The rows of C whose sums a rank adds: a slice of rows(), numbered from the first of these.
  RowRange slice(int rank) const;
  /// The rows of B in a rank's share, in the order in which `a` of part() has them. [share]
  std::vector<std::int32_t> share(int rank) const;
  /// The rows of A of a rank's group in the columns of its share. [rows x share]
  CsrMatrix part(const CsrMatrix& a, int rank) const;

  OwnPiece own_piece(int rank) const;
  /// Rows of B: sent from the rank's own ones, received into its share.
  RowMoves gather(int rank) const;
  /// Sums of C: sent from the rank's sums, received as copies of its slice, one after the other in
  /// the order of the copies without its own.
  RowMoves collect(int rank) const;
  /// Rows of C: the rank's slice is sent, and the others' received.
  RowMoves spread(int rank) const;
  /// The rows that all ranks send in one product.
  std::int64_t rows_exchanged() const;

 private:
  std::size_t index(int rank) const { return static_cast<std::size_t>(group_of(rank)); }
  int rank(int group, int copy) const { return group * copies_ + copy; }

  int groups_, copies_;
  std::vector<RowRange> rows_, b_rows_;  // [groups]
};

/// Runs an exchange of rows of `row_bytes` bytes: blocks are sent from `from` and received at `to`.
void exchange_rows(const RowMoves& moves, std::int64_t row_bytes, const std::byte* from,
                   std::byte* to, Communicator& comm, CUstream_st* stream);

/// The product as an SpmmKernel that reads A in CSR: its emulation and bounds.
class ReplicatedSpmm final : public SpmmKernel {
 public:
  /// Throws an Error for an unknown kernel, format or parameter and for copies that do not divide
  /// the parts, Unsupported for a kernel whose B or C is not in FP32.
  explicit ReplicatedSpmm(ReplicatedOptions options);

  std::string format() const override;
  int version() const override { return kernel_->version(); }
  Arithmetic arithmetic() const override { return kernel_->arithmetic(); }
  /// Those of the sums of all copies, and one more for each addition.
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override;
  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override;

  /// A rank's C over a communicator for memory of the host: `own` are its rows of B.
  DenseMatrix multiply_on_host(const CsrMatrix& a, const DenseMatrix& own,
                               const Generation& generation, Communicator& comm) const;

  const ReplicatedOptions& options() const { return options_; }
  const Params& params() const { return params_; }
  std::unique_ptr<PackedMatrix> pack(const CsrMatrix& matrix) const;

 private:
  ReplicatedOptions options_;
  Params params_;
  std::unique_ptr<SpmmKernel> kernel_;
  std::unique_ptr<Format> format_;
};

}  // namespace tessera
