// The interface of an SpGEMM kernel's host half: C = alpha A B, all three sparse, in FP32 CSR.
//
// Contract: columns of C ascend within a row. The pattern is structural (a cell is there when some
// a_ik and b_kj are stored), unless the kernel drops zeros and says so. A and B are only read. The
// device half, where there is one, registers itself as a GpuSpgemm under the same name
// (kernels/gpu_spgemm.hpp). No name is also an SpMM kernel's: a config has one axis for both.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/tensor_core.hpp"
#include "kernels/work.hpp"

namespace tessera {

/// Which kernel makes a product for another one, and what it went by.
struct SpgemmPath {
  std::string kernel;
  std::map<std::string, double> predicted_us = {};  // of every kernel that it was chosen from
};

class SpgemmKernel {
 public:
  static constexpr const char* kKind = "SpGEMM kernel";
  virtual ~SpgemmKernel() = default;

  /// Raised whenever the values or the speed of the kernel may have changed: part of a record's id.
  virtual int version() const = 0;

  virtual Arithmetic arithmetic() const = 0;

  /// That of one product, where not all have the same.
  virtual Arithmetic arithmetic_of(const CsrMatrix&, const CsrMatrix&) const {
    return arithmetic();
  }

  /// Nothing for a kernel that does not choose another one.
  virtual std::optional<SpgemmPath> path_of(const CsrMatrix&, const CsrMatrix&) const {
    return std::nullopt;
  }

  /// Whether cells that come out as zero stay in C, or are left out.
  virtual bool keeps_zeros() const { return true; }

  /// Upper limit, per row of A, on the terms of an element's sum: nonzeros of the row for FP32
  /// kernels, which is the default; MMAs for tensor-core kernels. [rows of A]
  virtual std::vector<std::int64_t> terms_per_row(const CsrMatrix& a, const CsrMatrix& b) const;

  /// A B (alpha = 1), bit for bit as the device half computes it. Throws Unsupported when the order
  /// of the sums is not known (closed libraries, atomics), and where the operands are beyond the
  /// kernel's numbers.
  virtual CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b,
                            const Generation& generation) const;

  /// What the launches do. Throws Unsupported where the kernel does not tell.
  virtual WorkDescription work(const CsrMatrix& a, const CsrMatrix& b) const;
};

/// A B in FP32, each element a chain of fused multiply-adds from zero in the order of A's columns:
/// what a kernel computes that takes the products of an element one after another.
/// Throws an Error when the shapes do not fit.
CsrMatrix multiply_rows(const CsrMatrix& a, const CsrMatrix& b);

}  // namespace tessera
