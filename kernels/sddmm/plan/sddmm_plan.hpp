// The library interface for SDDMM: S = X Y^T at the nonzeros of A on the current GPU, for one
// sparse A [M x N] and any number of dense X [M x K] and Y [N x K]. A plan packs A, times its
// candidate kernels once, keeps the fastest, and runs it any number of times.
//
//   SddmmPlan plan(a, 64);                  // X and Y have 64 columns
//   plan.run({x, y, s});                    // s[i] for the i-th nonzero of A, asynchronous
//
// The gradient of C = A B by the values of A is such a product: X is the gradient by C, Y is B.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/gpu_sddmm.hpp"
#include "kernels/storage.hpp"

namespace tessera {

/// A kernel with its parameters but "storage", "result" and "factor", which follow from the
/// options of the plan. Parameters that are not given have their defaults.
struct SddmmCandidate {
  std::string kernel;
  Params::Given params = {};
};

struct SddmmPlanOptions {
  /// The kernels to choose from. Two or more are timed once on this GPU, and the fastest is kept.
  /// The default candidates differ in their values: of FP32 operands, tessera_sddmm rounds to TF32,
  /// and rows_sddmm does not. Both give the same bits every time.
  std::vector<SddmmCandidate> candidates = {{"tessera_sddmm"}, {"rows_sddmm"}};

  ElementType operands = ElementType::kFp32;  // of X and Y in memory
  ElementType result = ElementType::kFp32;    // of S: FP32, or that of X and Y
  bool scales_by_a = false;                   // S is multiplied by the values of A
};

/// The time of a candidate, or the reason why it cannot be used.
struct SddmmTiming {
  SddmmCandidate candidate;  // with every parameter, once the candidate could be uploaded
  double us = 0;             // median time of a product, in microseconds; 0 when not timed
  std::string problem = {};  // why it cannot be used; empty when it can
};

class SddmmPlan {
 public:
  /// Plans products with X and Y of `k` columns. For every candidate, packs A on the host, uploads
  /// it and times products of operands that the plan allocates meanwhile; waits for the GPU. A is
  /// not needed afterwards.
  ///
  /// Throws an Error for an invalid A, k < 1, a result of a 16-bit type other than the operands',
  /// and an unknown kernel or parameter (with the nearest name); Unsupported, with every
  /// candidate's reason, when none takes this case; OutOfMemory; std::runtime_error for an error of
  /// CUDA.
  SddmmPlan(const CsrMatrix& a, std::int64_t k, const SddmmPlanOptions& options = {});
  ~SddmmPlan();
  SddmmPlan(SddmmPlan&&) noexcept;
  SddmmPlan& operator=(SddmmPlan&&) noexcept;

  /// Enqueues S [nnz] on the stream, in the order of A's CSR form. Does not wait and allocates no
  /// memory, so that a CUDA graph can capture it. X and Y are row-major without gaps, at the
  /// alignment of an element (for cuSPARSE of 16 bytes), of the types that the options named. Runs
  /// of one plan are independent of each other but for set_values().
  ///
  /// Throws an Error for a null pointer, an S that overlaps X or Y, and on another device than the
  /// plan's.
  void run(const SddmmOperands& operands, cudaStream_t stream = nullptr);

  /// Replaces the values of A from memory on the device [nnz], FP32 in the order of A's CSR form
  /// and in the order of the stream. Throws an Error for a plan whose S is not multiplied by them,
  /// a null pointer, and on another device than the plan's.
  void set_values(const float* values, cudaStream_t stream = nullptr);

  /// S as run() computes it on this GPU for the values that A was planned with, bit for bit, on the
  /// CPU. Throws an Error for operands of other shapes, Unsupported for a closed library.
  std::vector<float> emulate(const DenseMatrix& x, const DenseMatrix& y) const;

  std::int64_t rows() const;  // M
  std::int64_t cols() const;  // N
  std::int64_t k() const;     // K
  std::int64_t nnz() const;

  /// The chosen kernel, with every parameter.
  const SddmmCandidate& kernel() const;
  /// All candidates, in the order of the options.
  const std::vector<SddmmTiming>& timings() const;
  /// Bytes of the packed A, on the device and once more on the host, for emulate(). The task lists
  /// that some kernels keep are not included.
  std::int64_t packed_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
