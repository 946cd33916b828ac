// The interface of an SpMM kernel's host half: C = A B, A packed, B and C dense row-major.
//
// Contract: the kernel writes every element of C, which arrives poisoned rather than zeroed, and
// only reads B and the packed A. The host half states how the kernel rounds and sums (arithmetic),
// emulates it bit for bit (emulate), and describes its launches (work). The device half, where
// there is one, registers itself as a GpuSpmm under the same name (kernels/gpu_spmm.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/format.hpp"
#include "kernels/gpu_limits.hpp"
#include "kernels/scaling.hpp"
#include "kernels/storage.hpp"
#include "kernels/tensor_core/tensor_core.hpp"
#include "kernels/work.hpp"

namespace tessera {

/// The rounding and summation of a kernel, as far as an error bound needs them.
struct Arithmetic {
  enum class Sum {
    kFp32,        // FP32 additions or fused multiply-adds, in any order
    kTensorCore,  // chained MMAs
    kInteger,     // exact sums of operands that are quantised with one scale per matrix; only the
                  // result is rounded
    kFp64,        // as kFp32, with factors and sums in FP64; the result is rounded to FP32 at last
  };
  Sum sum = Sum::kFp32;
  MmaType type = MmaType::kTf32;  // of the MMAs; kTensorCore only
  int mma_depth = 8;              // products that one MMA adds to each element of its result
  double input_error = 0;         // largest relative error of rounding one operand to `type`
  int mmas_per_chunk = 1;         // MMAs for the same products, when operands are split into parts
  int promote = 0;                // chunks between additions to FP32 registers; 0 for never
  bool equilibrated = false;      // rows of A and columns of B are scaled to a magnitude near one
  bool narrows = false;           // B, and with MMAs A, is rounded to FP16 under powers of two, or
                                  // else multiplied in TF32 (kernels/spmm/narrowed)
  double quantisation = 0;        // largest error of an operand, relative to the largest magnitude
                                  // of its matrix; kInteger only
  Storage storage = {};           // of B and C in memory; a tensor-core kernel that stores B in 16
                                  // bits has MMAs of that type, whose input_error counts it
  int roundings_of_c = 1;         // of an element to C's type, where that has 16 bits
  bool adds_in_memory = false;    // sums may meet in memory, by additions that flush subnormals
  bool multiplies_padding = false;  // kFp32 only: zeros that fill a tile meet B, whose infinities
                                    // and NaNs make NaNs of them, as they do in tensor cores
};

class SpmmKernel {
 public:
  static constexpr const char* kKind = "kernel";
  virtual ~SpmmKernel() = default;

  /// The name of the format that the kernel reads.
  virtual std::string format() const = 0;

  /// A number that grows whenever the values or the speed of the kernel may have changed. It is
  /// part of a record's identity.
  virtual int version() const = 0;

  virtual Arithmetic arithmetic() const = 0;

  /// The GPU whose launches emulate() and work() describe; an H200 until this is called. It matters
  /// to a kernel that plans its launches by the size of the GPU.
  virtual void set_gpu(const GpuLimits& /*gpu*/) {}

  /// An upper limit, per row of A, on the number of terms of an element's sum: nonzeros of the row
  /// for FP32 kernels, MMAs that hold a nonzero of the row for tensor-core kernels. [rows of A]
  virtual std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const = 0;

  /// The FP32 sums of A B [rows of A x n], bit for bit as the device half computes them, before C's
  /// type rounds them: emulate_c() does. Throws Unsupported when the order of the sums is not known
  /// (closed libraries, atomics).
  virtual DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                              const Generation& generation) const;

  /// alpha A B + beta `old_c` in C's type, as the device half leaves it: every element has the bits
  /// of that element in one of the results. There are two where two sums are added to beta C in
  /// memory, in either order; otherwise one, emulate() with emulate_scaling() unless the kernel
  /// rounds in another place. Throws as emulate(), and an Error for an `old_c` of another shape.
  virtual std::vector<DenseMatrix> emulate_scaled(const PackedMatrix& packed, const DenseMatrix& b,
                                                  const Generation& generation,
                                                  const Scaling& scaling,
                                                  const DenseMatrix& old_c) const;

  /// The work of the kernel's launches for a B of n columns: the input of the models. Throws
  /// Unsupported when the kernel publishes none, as a closed library.
  virtual WorkDescription work(const PackedMatrix& packed, std::int64_t n) const;
};

/// C = A B as the device half leaves it, in the type of C: the rounded sums of emulate().
DenseMatrix emulate_c(const SpmmKernel& kernel, const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation);

/// The number of distinct indices in [0, limit), such as the rows of B that a packed matrix reads.
/// Negative indices mark unused places and do not count.
std::int64_t count_distinct(std::span<const std::int32_t> indices, std::int32_t limit);

}  // namespace tessera
