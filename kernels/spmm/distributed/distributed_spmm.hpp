// C = A B on several GPUs, without the GPUs: what each part multiplies and exchanges, and the
// product's values, bit for bit.
//
// Each part multiplies its rows of A twice with one kernel: the columns whose rows of B it owns,
// while the other rows of B travel, then those columns, whose sums it adds to C (beta = 1). An
// element of C is thus alpha s_local + beta c, rounded, plus alpha s_remote, rounded: two sums in
// place of one. Splitting columns in place of rows hides the exchange of a matrix all of whose rows
// need rows of B from elsewhere; the second product has only the rows that do, so that a mesh reads
// and writes little of C again. A C of 16 bits is rounded after each of the two.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/base/exchange_time.hpp"
#include "formats/base/params.hpp"
#include "kernels/scaling.hpp"
#include "kernels/spmm/distributed/communicator.hpp"
#include "kernels/spmm/distributed/partition.hpp"
#include "kernels/spmm/distributed/split.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/storage.hpp"

namespace tessera {

/// By what contiguous parts are alike.
enum class Balance { kNonzeros, kTime };

struct DistributedOptions {
  int parts = 2;
  /// The kernel of every part, with its parameters and those of its format, defaults where they are
  /// not given. B travels in the type in which the kernel stores it.
  std::string kernel = "tessera_spmm";
  Params::Given params = {};
  Params::Given format = {};

  /// kTime takes the formula of the kernel (time_costs()), and nonzeros where there is none.
  Balance balance = Balance::kTime;
  /// The part of each row of A, as METIS or an order of ours finds it; empty: contiguous parts.
  std::vector<std::int32_t> of_row = {};

  /// How rows of B travel; not given: kNeeded or kReplicated, whichever is expected to take less
  /// time with these rates.
  std::optional<Exchange> exchange = {};
  ExchangeRates rates = {};
  int gpus_of_host = 8;  // ranks [0, gpus_of_host) are on the first host, and so on
};

/// What all parts of a product agree about: each can find it from A and the options alone.
struct Distribution {
  RowPartition partition;
  ExchangeLists needed;      // the rows that have to travel,
  ExchangeLists travelling;  // and those that do
  Exchange exchange = Exchange::kNeeded;
  std::string reason = {};   // of the exchange, one sentence
  double needed_us = 0;      // expected time of the slowest part's exchange of needed rows,
  double replicated_us = 0;  // and of all rows
  ElementType b = ElementType::kFp32;  // the type of B
  std::int64_t row_bytes = 0;          // of a row of B

  std::int64_t bytes_exchanged() const { return travelling.volume() * row_bytes; }
  std::int64_t bound_bytes() const { return needed.connectivity_bound * row_bytes; }
};

/// Throws an Error for parts < 1 and a partition that does not fit A.
Distribution distribute(const CsrMatrix& a, std::int64_t n, const DistributedOptions& options);

/// What a part sends and receives. `gathers` says whether rows are copied before they are sent,
/// which those that follow each other are not.
ExchangeBytes bytes_of_part(const ExchangeLists& lists, int part, std::int64_t row_bytes,
                            bool gathers, int gpus_of_host);

/// A part, ready to be packed. With kGathered its `local` has all of B, in the order of the parts
/// that own its rows, and nothing is remote.
PartOfProduct part_of(const CsrMatrix& a, const Distribution& distribution, int part);

/// The rows of B that a part owns. [K_p x n]
DenseMatrix own_rows(const DenseMatrix& b, const PartOfProduct& part);

/// The places in `sent_rows` of a block that is sent where it is, since its rows follow each other
/// in the part's B: the first of them; -1 where they have to be gathered.
std::int64_t first_if_contiguous(const std::vector<std::int32_t>& sent_rows, const PeerRows& block);

/// The rows of B that reach a part, over a communicator for memory of the host: the columns of its
/// `remote`, or with kGathered all of B in the order of the parts. `own` [K_p x n] are its own
/// rows, which travel in B's type.
DenseMatrix exchange_on_host(const Distribution& distribution, const PartOfProduct& part,
                             const DenseMatrix& own, Communicator& comm);

/// C = A B by parts as an SpmmKernel that reads A in CSR: its emulation and bounds are those of the
/// product on several GPUs.
class DistributedSpmm final : public SpmmKernel {
 public:
  /// For a B of n columns, on which the partition may depend. Throws an Error for an unknown
  /// kernel, format or parameter.
  DistributedSpmm(DistributedOptions options, std::int64_t n);

  std::string format() const override;
  int version() const override { return kernel_->version(); }
  Arithmetic arithmetic() const override;
  void set_gpu(const GpuLimits& gpu) override { kernel_->set_gpu(gpu); }
  /// Those of both sums of a row, and one more where there are two.
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override;
  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override;
  /// Each part rounds alpha times its own rows of B before it adds what it receives.
  std::vector<DenseMatrix> emulate_scaled(const PackedMatrix& packed, const DenseMatrix& b,
                                          const Generation& generation, const Scaling& scaling,
                                          const DenseMatrix& old_c) const override;

  /// A part's C [M_p x n] = alpha A_p B + beta C, in C's type: `b` has the rows that it multiplies
  /// by `local`, `received` those of `remote`. `old_c` is not read where beta is 0.
  DenseMatrix emulate_part(const PartOfProduct& part, const DenseMatrix& b,
                           const DenseMatrix& received, const Generation& generation,
                           const Scaling& scaling, const DenseMatrix& old_c) const;

  const DistributedOptions& options() const { return options_; }
  const SpmmKernel& kernel() const { return *kernel_; }
  const Params& params() const { return params_; }
  /// A matrix in the kernel's format.
  std::unique_ptr<PackedMatrix> pack(const CsrMatrix& matrix) const;

 private:
  DistributedOptions options_;
  std::int64_t n_;
  Params params_;
  std::unique_ptr<SpmmKernel> kernel_;
  std::unique_ptr<Format> format_;
};

}  // namespace tessera
