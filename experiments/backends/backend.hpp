// The interface of a backend, which runs a point and gives its numbers their origin.
//
// "emulate" computes C as the GPU would, "model" and "simulate" predict the time, "gpu" measures
// it; "pack" and "pack_gpu" measure the packing of A, and "reorder" the search for its order. A
// backend receives its inputs ready made (matrix, order, packed A, B) and returns its findings; the
// caller checks them against the oracle, or by a round trip.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "experiments/backends/find_order.hpp"
#include "experiments/points/point.hpp"
#include "experiments/records/record.hpp"
#include "formats/format.hpp"
#include "kernels/sddmm_kernel.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {

/// One product, ready to run.
struct Multiplication {
  const Point& point;
  const SpmmKernel& kernel;
  const PackedMatrix& a;    // in the point's order
  const DenseMatrix& b;     // rows in the order of a's columns
  const Permutation& rows;  // order of a's rows, against the file
};

struct BackendResult {
  std::optional<DenseMatrix> c;             // [rows x n], rows in the order of a
  std::string generation;                   // tensor cores whose arithmetic c has; empty without c
  double time_us = 0;                       // measured median or prediction; 0 when there is none
  std::int64_t unwritten = 0;               // elements of C the launch left poisoned
  bool guards_intact = true;                // nothing was written outside C
  std::optional<DenseMatrix> c_of_negated;  // of a later launch, with B negated
  std::string fault;                        // what else is wrong; empty when nothing is
  BackendFindings findings;                 // for the record: the time, the prediction, ...

  /// What is left to do on the host, while others may use the device: it sets c, unwritten,
  /// guards_intact, c_of_negated and fault. To be called by finish() alone; empty where nothing is.
  std::function<void(BackendResult&)> rest = {};
  void finish() {
    if (rest) std::exchange(rest, {})(*this);
  }
};

/// One product of two sparse matrices, ready to run.
struct SparseMultiplication {
  const Point& point;
  const SpgemmKernel& kernel;
  const CsrMatrix& a;               // in the point's order
  const CsrMatrix& b;               // rows in the order of a's columns
  const CsrMatrix* mask = nullptr;  // C has its cells; nullptr: those of the product
};

/// C, or C under the mask, as the kernel emulates it.
CsrMatrix emulate(const SparseMultiplication& m, const Generation& generation);

struct SparseProductResult {
  std::optional<CsrMatrix> c;  // rows in the order of a, and as the kernel left it: unchecked
  std::string generation;      // tensor cores whose arithmetic c has; empty without c
  double time_us = 0;          // measured median or prediction; 0 when there is none
  double pool_us = 0;          // measured median with memory from a pool; likewise
  double pack_s = 0;           // bringing A and B into the kernel's form; likewise
  std::optional<CsrMatrix> c_of_negated;  // of a later product, with alpha = -1
  std::string fault;                      // what else is wrong; empty when nothing is
  BackendFindings findings;               // for the record: the times, the stages, ...
};

/// One product of two dense matrices at the nonzeros of A, ready to run.
struct SampledMultiplication {
  const Point& point;
  const SddmmKernel& kernel;
  const CsrMatrix& pattern;  // A in the point's order
  const PackedMatrix& a;     // the same, packed
  const DenseMatrix& x;      // rows in the order of a's rows
  const DenseMatrix& y;      // rows in the order of a's columns
};

struct SampledProductResult {
  std::optional<CsrMatrix> s;             // the pattern of a with the values of S
  std::string generation;                 // tensor cores whose arithmetic s has; empty without s
  double time_us = 0;                     // measured median or prediction; 0 when there is none
  std::int64_t unwritten = 0;             // elements of S the launch left poisoned
  bool guards_intact = true;              // nothing was written outside S
  std::optional<CsrMatrix> s_of_negated;  // of a later launch, with X negated
  std::string fault;                      // what else is wrong; empty when nothing is
  BackendFindings findings;               // for the record: the time, the prediction, ...
};

/// One packing, ready to run.
struct PackingInput {
  const Point& point;
  const Format& format;
  const CsrMatrix& matrix;  // in the point's order
};

struct PackingResult {
  std::unique_ptr<PackedMatrix> packed;  // of one of the measured packings
  double time_us = 0;                    // measured median
  std::string fault;                     // what is wrong with another build of it; empty when right
  BackendFindings findings;              // for the record: the time
};

/// One reordering, ready to run.
struct OrderingInput {
  const Point& point;
  const Reordering& reordering;
  const CsrMatrix& matrix;
  Watch& watch;
};

struct OrderingResult {
  FoundOrder found;          // its seconds are the measured median
  double time_us = 0;        // the same
  std::string fault;         // what is wrong with it; empty when right
  BackendFindings findings;  // for the record: the time
};

/// Its traits (point.hpp) say which of run(), pack() and reorder() it overrides; what has
/// run() has both multiply() as well.
class Backend {
 public:
  static constexpr const char* kKind = "backend";
  virtual ~Backend() = default;

  /// emulated, simulated, modelled or measured.
  virtual std::string origin() const = 0;

  /// The reason why this machine cannot run it; empty when it can.
  virtual std::string unavailable() const { return ""; }

  /// True when this process has lost its device for good, as after an illegal access of a kernel:
  /// only a new process can use it then. Asked after work that failed; waits for the device.
  virtual bool has_lost_device() const { return false; }

  /// Makes what the first use of the device in this process would make, such as its context.
  virtual void open_device() const {}

  /// The limits of the GPU that a product runs on: of the described device of the point, unless the
  /// backend has a GPU.
  virtual GpuLimits gpu_limits(const Point& point) const;

  /// Does what run() of this product needs no device for: run() of the same object then has the
  /// device for a shorter time. Throws as run().
  virtual void prepare(const Multiplication& /*multiplication*/) {}

  /// The result is complete after its finish(). Throws Unsupported for a combination that is
  /// legitimate and cannot be done.
  virtual BackendResult run(const Multiplication& multiplication) const;
  virtual SparseProductResult multiply(const SparseMultiplication& multiplication) const;
  virtual SampledProductResult multiply(const SampledMultiplication& multiplication) const;
  virtual PackingResult pack(const PackingInput& packing) const;
  virtual OrderingResult reorder(const OrderingInput& ordering) const;
};

/// The registered backend, or, for one this build was made without ("gpu" or "pack_gpu" without
/// CUDA), a reason.
/// Throws an Error for a name that is no backend at all.
struct BackendChoice {
  std::unique_ptr<Backend> backend;
  std::string missing;
};
BackendChoice find_backend(const std::string& name);

}  // namespace tessera
