// The library: C = alpha A B + beta C for one sparse A and as many dense B as come, on the current
// GPU. A plan packs A, times the kernels it is offered once, keeps the fastest, and runs it as
// often as asked.
//
//   SpmmPlan plan(a, 128);                  // B and C have 128 columns
//   plan.run(b, c);                         // C = A B, row-major, asynchronous
//   plan.run(b, c, {2, 1}, stream);         // C = 2 A B + C
//
// kernels/spmm/plan/example/spmm_plan.cpp is a whole program.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "formats/base/permutation.hpp"
#include "kernels/device/device_matrix.hpp"
#include "kernels/scaling.hpp"

namespace tessera {

/// A kernel with parameters of its own and of the format it reads; what is not given has its
/// default. `tessera list kernels` and `tessera list formats` show them all.
struct SpmmCandidate {
  std::string kernel;
  Params::Given params = {};
  Params::Given format = {};
};

struct SpmmPlanOptions {
  /// Timed once on this GPU, where there are several; the fastest is kept. Those by default differ
  /// in what they compute: acc_spmm and cutespmm round operands to TF32, csr_spmm does not, and
  /// cutespmm may add in another order every time. Who cares for either names the kernel.
  std::vector<SpmmCandidate> candidates = {{"acc_spmm"}, {"cutespmm"}, {"csr_spmm"}};

  /// Rows of A in an order that a kernel likes better (a reordering's), none: as they are. C comes
  /// back in the order of A; that costs run() 8 bytes for each of its elements, and the plan 4.
  Permutation rows = {};

  /// Whether B and C may come in column order or with gaps between rows. Each then takes 4 bytes of
  /// workspace an element, and a run() with such an operand copies it, 8 bytes an element; with any
  /// other it does not.
  bool converts_b = false;
  bool converts_c = false;
};

/// What became of a candidate.
struct SpmmTiming {
  SpmmCandidate candidate;
  std::string algorithm = {};  // of a library that has several; else empty
  double us = 0;               // median time of a product; 0: not timed
  std::string problem = {};    // why it cannot be used here; empty where it can
};

class SpmmPlan {
 public:
  /// For B of `n` columns. Packs A for every candidate on the host, uploads and times it; waits for
  /// the GPU. While it times, it has a B and a C on the device. A is not needed afterwards.
  ///
  /// Throws an Error for an invalid A, n < 1, an order of another size than A has rows, a kernel or
  /// a parameter that is not known (with the nearest name); Unsupported, with every candidate's
  /// reason, where none takes this case; OutOfMemory; std::runtime_error for what CUDA reports.
  SpmmPlan(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& options = {});
  ~SpmmPlan();
  SpmmPlan(SpmmPlan&&) noexcept;
  SpmmPlan& operator=(SpmmPlan&&) noexcept;

  /// C [M x N] = alpha A B [K x N] + beta C, enqueued on the stream: does not wait, takes no
  /// memory, and can be captured into a CUDA graph. C is not read where beta is 0. Row-major
  /// operands without gaps are used where they lie, at any alignment (by cuSPARSE: of 16 bytes);
  /// others need `converts_b` and `converts_c`. Runs of one plan share its workspace: they have to
  /// follow each other, on one stream or by events. Runs of two plans need not.
  ///
  /// Throws an Error for a null pointer, a leading dimension below the row's (column's) length, an
  /// operand that needs a workspace that the plan has not got, B and C that overlap (noticed where
  /// neither has gaps, or both begin at the same address), and on another device than the plan's.
  void run(const ConstDeviceMatrix& b, const DeviceMatrix& c, Scaling scaling = {},
           cudaStream_t stream = nullptr);

  /// A B as run() computes it on this GPU, bit for bit, on the CPU; emulate_scaling takes it on to
  /// alpha and beta. Throws an Error for a B of another shape, Unsupported for a kernel that adds
  /// in no fixed order and a closed library.
  DenseMatrix emulate(const DenseMatrix& b) const;

  std::int64_t rows() const;  // M
  std::int64_t cols() const;  // K
  std::int64_t n() const;     // N

  /// The one that runs, every parameter filled in.
  const SpmmCandidate& kernel() const;
  /// All candidates, in their order.
  const std::vector<SpmmTiming>& timings() const;
  /// Of A as it is packed, on the device and, for emulate(), on the host; what a kernel keeps of
  /// tasks besides is not in it.
  std::int64_t packed_bytes() const;
  /// On the device, for layouts and for the order of rows.
  std::int64_t workspace_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
