// The library interface: C = alpha A B + beta C on the current GPU, for one sparse A and any number
// of dense B. A plan packs A, times its candidate kernels once, keeps the fastest, and runs it any
// number of times.
//
//   SpmmPlan plan(a, 128);                  // B and C have 128 columns
//   plan.run(b, c);                         // C = A B, row-major, asynchronous
//   plan.run(b, c, {2, 1}, stream);         // C = 2 A B + C
//
// kernels/spmm/plan/example/spmm_plan.cpp is a complete program.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "formats/base/permutation.hpp"
#include "formats/dense_tiles.hpp"
#include "kernels/device/device_matrix.hpp"
#include "kernels/scaling.hpp"
#include "kernels/spmm/plan/order_choice.hpp"
#include "kernels/storage.hpp"

namespace tessera {

/// A kernel with its parameters and those of the format that it reads. Parameters that are not
/// given have their defaults; `tessera list kernels` and `tessera list formats` show them all.
struct SpmmCandidate {
  std::string kernel;
  Params::Given params = {};
  Params::Given format = {};
  /// An order of A's rows that is found on the GPU, where A is packed in it ("matched"); empty for
  /// the order that A has. C comes back in the order of A. A kernel that does not take such an A is
  /// left out, and so are all such candidates where SpmmPlanOptions::rows names an order.
  std::string order = {};
  /// A candidate whose kernel narrows B in a launch of its own (precision = fp16_scaled) is left
  /// out where that cannot pay: where A has fewer nonzeros to a column, which are the uses of a row
  /// of B, and where B has fewer than 64 columns; with B or C in 16 bits one whose precision is
  /// named is, and another takes such a B as it is. 0: never left out.
  double least_uses = 0;
  /// A candidate is left out where formulas expect it to take more than this many times as long as
  /// another one, so that a plan does not pack A for nothing (worth_timing.hpp). 0: never left out.
  double most_predicted = 0;
};

struct SpmmPlanOptions {
  /// The kernels to choose from. Two or more are timed once on this GPU, and the fastest is kept.
  /// The default candidates differ in their values: tessera_spmm and dense_spmm round operands to
  /// TF32, rows_spmm does not; in the precision fp16_scaled, B has 11 significant bits, too, and
  /// with tessera_spmm and tall_spmm A (kernels/spmm/narrowed/narrowed_b.hpp); dense_spmm, of which
  /// an A with less than one nonzero in twenty is no candidate, multiplies A's zeros too, so that
  /// an infinity or a NaN of B reaches all rows of C. Each gives the same bits every time. Name one
  /// kernel where the difference matters.
  std::vector<SpmmCandidate> candidates = {
      {"tessera_spmm"},
      {"rows_spmm"},
      {"tessera_spmm", {{"precision", std::string("fp16_scaled")}}, {}, "", 20},
      {"rows_spmm", {{"precision", std::string("fp16_scaled")}}, {}, "", 20},
      {"tall_spmm", {}, {}, "", 30},
      {"dense_spmm", {}, {{"growth", DenseTiles::kWorthwhileGrowth}}}};

  /// About how often A is multiplied. From 1 to kFewProducts nothing is timed, where every
  /// candidate has a formula for its time (the default candidates with their default
  /// parameters): the one with the least is taken, which costs the host about a millisecond. With
  /// more, and two or more candidates, an order of A's rows is found on the GPU where the formulas
  /// expect it to save more than it takes; it is one candidate more, and kept where its products
  /// are the fastest (SpmmPlan::preparation()). 0: often enough to time candidates, and no order is
  /// looked for.
  std::int64_t expected_products = 0;

  /// The types of B and C in memory: FP32, FP16 or BF16, and FP32 for C with any B. Sums are FP32.
  /// A candidate whose parameters do not name its types gets these.
  Storage storage = {};

  /// An order of A's rows that suits the kernel (the result of a reordering); empty for the given
  /// order. C comes back in the order of A: tessera_spmm and rows_spmm write its rows there. For
  /// other kernels each run() moves 8 bytes per element of C, takes 4 bytes per element of
  /// workspace, and needs a C in FP32.
  Permutation rows = {};

  /// True when B (C) may be column-major or have gaps between rows. Each takes 4 bytes of workspace
  /// per element. A run() with such an operand copies it, which moves 8 bytes per element; a run()
  /// with any other operand does not. Both need that operand in FP32.
  bool converts_b = false;
  bool converts_c = false;

  /// True when A's values may be replaced. It takes 4 bytes per stored value unless the kernel has
  /// them in the order of A, and leaves out candidates that have them in another form.
  bool sets_values = false;
};

/// The time of a candidate, or the reason why it cannot be used.
struct SpmmTiming {
  SpmmCandidate candidate;     // with every parameter, once the candidate could be uploaded
  std::string algorithm = {};  // the fastest one of a library that has several; else empty
  double us = 0;               // median time of a product, in microseconds; 0 when not timed
  double predicted_us = 0;     // by a formula, where nothing is timed; else 0
  double preparation_us = 0;  // time to copy A to the GPU, find its order and pack it there; else 0
  std::string problem = {};   // why it cannot be used; empty when it can
};

class SpmmPlan {
 public:
  /// Plans products with B of `n` columns. For every candidate, packs A, on the host unless it
  /// names an order, uploads it and times products of a B and a C that the plan allocates
  /// meanwhile; waits for the GPU. A is not needed afterwards.
  ///
  /// Throws an Error for an invalid A, n < 1, an order whose size is not the number of A's rows, an
  /// option that needs an operand in FP32 which has 16 bits, and an unknown kernel or parameter
  /// (with the nearest name); Unsupported, with every candidate's reason, when none takes this
  /// case; OutOfMemory; std::runtime_error for an error of CUDA.
  SpmmPlan(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& options = {});
  ~SpmmPlan();
  SpmmPlan(SpmmPlan&&) noexcept;
  SpmmPlan& operator=(SpmmPlan&&) noexcept;

  /// Enqueues C [M x N] = alpha A B [K x N] + beta C on the stream. Does not wait and allocates no
  /// memory, so that a CUDA graph can capture it. C is not read when beta is 0. Row-major operands
  /// without gaps are used in place, at any alignment (by cuSPARSE: of 16 bytes); others need
  /// `converts_b` and `converts_c`. Runs of one plan share its workspace: the caller has to let
  /// them run one after another, on one stream or by events. Runs of two plans are independent.
  ///
  /// Throws an Error for a null pointer, a leading dimension below the length of a row (column), an
  /// operand that needs a workspace that the plan does not have, B and C that overlap (detected
  /// when neither has gaps, or both begin at the same address), and on another device than the
  /// plan's.
  void run(const ConstDeviceMatrix& b, const DeviceMatrix& c, Scaling scaling = {},
           cudaStream_t stream = nullptr);

  /// The same for `count` matrices: C_i = alpha A B_i + beta C_i, where B_i and C_i are laid out as
  /// B_0 = b and C_0 = c, and begin `b_stride` and `c_stride` elements behind the one before (a
  /// `b_stride` of 0 multiplies one B several times). Enqueues the products one after another; the
  /// host waits for none. B with the columns of all B_i side by side, which is a B of count * N
  /// columns, is multiplied in one launch by a plan of that width, which reads A once.
  ///
  /// Throws as run() does, and an Error for a count or stride below 0, and for C that overlap.
  void run_batch(std::int64_t count, const ConstDeviceMatrix& b, std::int64_t b_stride,
                 const DeviceMatrix& c, std::int64_t c_stride, Scaling scaling = {},
                 cudaStream_t stream = nullptr);

  /// The FP32 sums of A B [M x N] as run() computes them on this GPU, bit for bit, on the CPU;
  /// emulate_scaling() applies alpha and beta, and rounds to C's type, unless parts of a sum meet
  /// in memory (SpmmKernel::emulate_scaled() for their two orders). Throws an Error for a B of
  /// another shape, Unsupported for a kernel that adds in no fixed order and for a closed library.
  DenseMatrix emulate(const DenseMatrix& b) const;

  /// Enqueues the replacement of A's values by `values` [nnz], which are on the device in the order
  /// of A; runs on the stream after it have them, emulate() keeps those that the plan was made
  /// with. Does not wait and allocates no memory. Throws an Error for a plan without `sets_values`
  /// and a null pointer, and as run() does.
  void set_values(const float* values, cudaStream_t stream = nullptr);

  std::int64_t rows() const;  // M
  std::int64_t cols() const;  // K
  std::int64_t n() const;     // N

  /// The chosen kernel, with every parameter.
  const SpmmCandidate& kernel() const;
  /// All candidates, in the order of the options; those that `least_uses` or `most_predicted` left
  /// out come last.
  const std::vector<SpmmTiming>& timings() const;
  /// The order of A's rows that was found on the GPU, if any, and why.
  const SpmmPreparation& preparation() const;
  /// Bytes of the packed A, on the device and once more on the host, for emulate(); where A was
  /// packed on the GPU, that has A in CSR instead of the host. The task lists that some kernels
  /// keep are not included.
  std::int64_t packed_bytes() const;
  /// Bytes on the device for the conversion of layouts, the order of rows and the places of values.
  std::int64_t workspace_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
