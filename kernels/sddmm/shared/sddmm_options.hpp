// The parameters that all of our SDDMM kernels have: the types of X, Y and S in memory, and whether
// a dot product is multiplied by the value of A.
#pragma once

#include <vector>

#include "formats/base/params.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera::sddmm {

struct SddmmOptions {
  /// Takes some of these parameters; those that a kernel lacks have their defaults.
  explicit SddmmOptions(const Params& params);

  Storage storage;           // b: of X and Y; c: of S
  bool scales_by_a = false;  // a dot product is multiplied by the value of A

  /// Bytes of an element of X or Y.
  int bytes() const { return static_cast<int>(bytes_of(storage.b)); }
  /// Bytes of an element of S.
  int result_bytes() const { return static_cast<int>(bytes_of(storage.c)); }
};

/// The parameters "storage" and "result".
std::vector<ParamSpec> storage_params();
/// The parameter "factor".
ParamSpec factor_param();
/// All of these.
std::vector<ParamSpec> option_params();

/// X and Y as the kernels read them: rounded to their type in memory.
struct StoredOperands {
  StoredOperands(const DenseMatrix& x, const DenseMatrix& y, ElementType type)
      : x(stored_as(type, x)), y(stored_as(type, y)) {}

  DenseMatrix x, y;
};

/// An element of S from its sum and the value of A, bit for bit as the kernels write it.
float finished(const SddmmOptions& options, float sum, float value_of_a);

}  // namespace tessera::sddmm
