// The interface of an SpMM kernel's host half: C = A B, A packed, B and C dense row-major FP32.
//
// Contract: every element of C is written (C arrives poisoned, nobody zeroes it first); B and the
// packed A are only read. The host half says what the kernel computes (arithmetic), emulates it bit
// by bit, and describes its launches (work). The device half, where there is one, registers itself
// as a GpuSpmm under the same name (kernels/gpu_spmm.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/format.hpp"
#include "kernels/tensor_core/tensor_core.hpp"
#include "kernels/work.hpp"

namespace tessera {

/// How a kernel rounds and sums, as far as an error bound needs to know.
struct Arithmetic {
  enum class Sum {
    kFp32,        // FP32 additions or fused multiply-adds, in any order
    kTensorCore,  // chained MMAs
    kInteger,     // exact, of operands quantised with one scale a matrix; the result is rounded
  };
  Sum sum = Sum::kFp32;
  MmaType type = MmaType::kTf32;  // of the MMAs; kTensorCore only
  int mma_depth = 8;              // products of one MMA per element of its result
  double input_error = 0;         // largest relative error of rounding one operand on the way in
  int mmas_per_chunk = 1;         // MMAs for the same products: operands split into parts
  int promote = 0;                // chunks between additions to FP32 registers; 0: never
  bool equilibrated = false;      // rows of A and columns of B are scaled to about one
  double quantisation = 0;        // largest error of an operand, relative to its matrix's largest
                                  // magnitude; kInteger only
};

class SpmmKernel {
 public:
  static constexpr const char* kKind = "kernel";
  virtual ~SpmmKernel() = default;

  /// Name of the format it reads.
  virtual std::string format() const = 0;

  /// Raised whenever the values or the speed of the kernel may have changed: part of a record's id.
  virtual int version() const = 0;

  virtual Arithmetic arithmetic() const = 0;

  /// Upper limit, per row of A, on the terms of that row's sum: nonzeros for FP32 kernels, MMAs
  /// that hold a nonzero of the row for tensor-core kernels. [rows]
  virtual std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const = 0;

  /// C [rows x n], bit for bit as the device half computes it. Throws Unsupported when the order of
  /// the sums is not known (closed libraries, atomics).
  virtual DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                              const Generation& generation) const;

  /// What a launch does for a B of n columns. Throws Unsupported for a closed library.
  virtual WorkDescription work(const PackedMatrix& packed, std::int64_t n) const;
};

/// Distinct indices in [0, limit); negative ones are places nobody uses. How many rows of B a
/// packed matrix needs at all.
std::int64_t count_distinct(std::span<const std::int32_t> indices, std::int32_t limit);

}  // namespace tessera
