// The interface of an SDDMM kernel's host half: S = X Y^T at the nonzeros of A (sampled dense-dense
// matrix multiplication), X [M x K] and Y [N x K] dense row-major, A [M x N] sparse and packed.
//
// Contract: S has one element for every stored element of A, explicit zeros among them, in the
// order of A's CSR form. The kernel writes every element of S, which arrives poisoned, and only
// reads X, Y and the packed A. An element is a dot product of a row of X and a row of Y, or that
// times the value of A (scales_by_a). X and Y have one type in memory, and S has its own
// (Arithmetic::storage: b and c). The device half, where there is one, registers itself as a
// GpuSddmm under the same name (kernels/gpu_sddmm.hpp). The names of SpMM, SpGEMM and SDDMM kernels
// are distinct: a config has one axis for all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/format.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/tensor_core.hpp"
#include "kernels/work.hpp"

namespace tessera {

class SddmmKernel {
 public:
  static constexpr const char* kKind = "SDDMM kernel";
  virtual ~SddmmKernel() = default;

  /// The name of the format of A that the kernel reads.
  virtual std::string format() const = 0;

  /// A number that grows whenever the values or the speed of the kernel may have changed. It is
  /// part of a record's identity.
  virtual int version() const = 0;

  virtual Arithmetic arithmetic() const = 0;

  /// True when a dot product is multiplied by the value of A, with one more rounding in FP32.
  virtual bool scales_by_a() const { return false; }

  /// An upper limit on the number of terms of an element's sum over K: products for FP32 kernels,
  /// which is the default; MMAs for tensor-core kernels.
  virtual std::int64_t terms(std::int64_t k) const { return k; }

  /// S [nnz], bit for bit as the device half computes it; X and Y are rounded to the type in which
  /// they are stored. Throws an Error when the shapes do not fit, and Unsupported when the order of
  /// the sums is not known (closed libraries).
  virtual std::vector<float> emulate(const PackedMatrix& packed, const DenseMatrix& x,
                                     const DenseMatrix& y, const Generation& generation) const;

  /// The work of the kernel's launches for an X and a Y of k columns: the input of the models. The
  /// rows of X and Y count as B, S counts as C. Throws Unsupported when the kernel publishes none.
  virtual WorkDescription work(const PackedMatrix& packed, std::int64_t k) const;
};

/// Throws an Error unless X is M x K and Y is N x K for an A of M x N.
void require_sddmm_shapes(const PackedMatrix& a, const DenseMatrix& x, const DenseMatrix& y);

/// A with the values of S: the form in which S is compared and told. It shares A's pattern.
CsrMatrix with_values(const CsrMatrix& a, std::vector<float> s);

}  // namespace tessera
