// The truth of an SDDMM, S = X Y^T at the nonzeros of A, in fp64, and the errors of a computed S.
//
// Products of two floats are exact in double; they are summed with compensation as in
// spmm_oracle.hpp, with the same error. Where dot products are multiplied by the values of A, so
// are the truth and its magnitude, with one more rounding to double. An element that A stores as
// zero is compared like any other.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "oracle/product_errors.hpp"

namespace tessera {

/// The dense factors of an SDDMM, X [rows of A x k] and Y [columns of A x k].
struct SampledFactors {
  const DenseMatrix& x;
  const DenseMatrix& y;
  bool scales_by_a = false;  // dot products are multiplied by the values of A
};

/// X Y^T and |X||Y|^T at the nonzeros of rows [begin, end) of A. Throws an Error when the shapes do
/// not fit.
struct TrueSamples {
  std::vector<double> product;    // [nonzeros of the rows]
  std::vector<double> magnitude;  // likewise
};
TrueSamples sddmm_fp64(const CsrMatrix& a, const SampledFactors& factors, std::int64_t begin,
                       std::int64_t end);

/// Compares S, which is a matrix with A's pattern, with the truth as compare_spmm does
/// (spmm_oracle.hpp); the bound is per row of A. With `against_fp32` also with chains of fused
/// multiply-adds in FP32 over the columns of X and Y. Throws an Error when the shapes do not fit, S
/// has another pattern than A, or a bound is negative or NaN.
ProductErrors compare_sddmm(const CsrMatrix& a, const SampledFactors& factors, const CsrMatrix& s,
                            const ErrorBound& bound, bool against_fp32 = false);

}  // namespace tessera
