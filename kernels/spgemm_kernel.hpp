// The interface of an SpGEMM kernel's host half: C = alpha A B, all three sparse, in FP32 CSR.
//
// Contract:
//   - the columns of C ascend within a row;
//   - the pattern of C is structural: a cell is stored when some a_ik and b_kj are, even where the
//     sum is zero, unless the kernel drops zeros and says so (keeps_zeros);
//   - A and B are only read;
//   - under a mask M, C has exactly the cells of M: mask_product() of the C without one.
// The device half, where there is one, registers itself as a GpuSpgemm under the same name
// (kernels/gpu_spgemm.hpp). The names of SpGEMM and SpMM kernels are distinct: a config has one
// axis for both.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/base/choice.hpp"
#include "formats/base/matrix.hpp"
#include "formats/base/wide_matrix.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/tensor_core.hpp"
#include "kernels/work.hpp"

namespace tessera {

namespace spgemm {
class ProductSketch;  // kernels/spgemm/shared/product_sketch.hpp
}

/// The kernel that makes a product in place of another one, and what the choice rests on.
struct SpgemmPath {
  std::string kernel = {};
  std::map<std::string, double> predicted_us = {};  // of each kernel that could be chosen
  std::string reason = {};                          // one sentence
};

class SpgemmKernel {
 public:
  static constexpr const char* kKind = "SpGEMM kernel";
  virtual ~SpgemmKernel() = default;

  /// A number that grows whenever the values or the speed of the kernel may have changed. It is
  /// part of a record's identity.
  virtual int version() const = 0;

  virtual Arithmetic arithmetic() const = 0;

  /// The arithmetic of one product, for a kernel that does not compute all products alike.
  virtual Arithmetic arithmetic_of(const CsrMatrix&, const CsrMatrix&) const {
    return arithmetic();
  }

  /// The kernel that makes the product A B, for a kernel that chooses among others; empty for all
  /// other kernels.
  virtual std::optional<SpgemmPath> path_of(const CsrMatrix&, const CsrMatrix&) const {
    return std::nullopt;
  }

  /// True when cells of C that become zero stay in C, false when they are dropped.
  virtual bool keeps_zeros() const { return true; }

  /// An upper limit, per row of A, on the number of terms of an element's sum: nonzeros of the row
  /// for FP32 kernels, which is the default; MMAs for tensor-core kernels. [rows of A]
  virtual std::vector<std::int64_t> terms_per_row(const CsrMatrix& a, const CsrMatrix& b) const;

  /// A B (alpha = 1), bit for bit as the device half computes it. Throws an Error when the shapes
  /// do not match, and Unsupported when the order of the sums is not known (closed libraries,
  /// atomics) or the operands are outside the kernel's number range.
  virtual CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b,
                            const Generation& generation) const;

  /// The same under the pattern of a mask, bit for bit as GpuSpgemm::upload_masked() computes it:
  /// the whole product's values at the cells of the mask, unless the kernel makes them otherwise.
  virtual CsrMatrix emulate_masked(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& mask,
                                   const Generation& generation) const;

  /// The work of the kernel's launches: the input of the simulator. Throws Unsupported when the
  /// kernel does not describe its work.
  virtual WorkDescription work(const CsrMatrix& a, const CsrMatrix& b) const;

  /// The work in a few numbers that cost far less to find than work(): the input of the cost model
  /// that is registered under the kernel's name (CostModel in formats/base/choice.hpp). Throws
  /// Unsupported when the kernel publishes none, does not take the operands, or no cost model
  /// covers the way in which it would multiply them.
  virtual WorkCounts count_work(const spgemm::ProductSketch& product) const;
};

/// A B in FP32. Each element is a chain of fused multiply-adds, from zero, in the order of A's
/// columns: the values of every kernel that adds the products of an element one after another.
/// Throws an Error when the shapes do not match.
CsrMatrix multiply_rows(const CsrMatrix& a, const CsrMatrix& b);

/// The same in FP64.
WideCsrMatrix multiply_rows(const WideCsrMatrix& a, const WideCsrMatrix& b);

/// C under the pattern of a mask M: it has the cells of M and no others, with C's values, and with
/// +0 where C has none. The values of M do not matter. Throws an Error when the shapes differ.
CsrMatrix mask_product(const CsrMatrix& c, const CsrMatrix& mask);

}  // namespace tessera
