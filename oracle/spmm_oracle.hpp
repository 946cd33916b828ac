// The truth of C = A B in fp64, and the errors of a computed C.
//
// Products of two floats are exact in double; they are summed with compensation (Sum2 of Ogita,
// Rump and Oishi 2005), as if in twice fp64's precision and rounded once: the error of the truth is
// at most 2^-53 |AB| + n^2 2^-106 |A||B| for a row of n terms. The truth is computed and compared a
// few rows at a time. This room includes matrices, but neither formats nor kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "oracle/error_meter.hpp"
#include "oracle/product_errors.hpp"

namespace tessera {

/// Rows [begin, end) of A B and of |A||B| in fp64. Throws an Error when the shapes do not fit.
struct TrueRows {
  std::vector<double> product;    // [(end - begin) * n]
  std::vector<double> magnitude;  // [(end - begin) * n]
};
TrueRows spmm_fp64(const CsrMatrix& a, const DenseMatrix& b, std::int64_t begin, std::int64_t end);

/// The truth of all of C, to compare several C of the same A and B with.
struct SpmmTruth {
  TrueRows rows;  // of all rows
  ProductNorms norms;

  /// The memory that it takes.
  static std::int64_t bytes(std::int64_t rows, std::int64_t n);
};

/// Throws an Error when the shapes do not fit.
SpmmTruth spmm_truth(const CsrMatrix& a, const DenseMatrix& b);

/// C = A B in FP32: each element is a chain of fused multiply-adds from zero over the nonzeros of
/// its row, in their order. It is tSparse's reference for SMAPE. Throws an Error when the shapes do
/// not fit.
DenseMatrix spmm_fp32(const CsrMatrix& a, const DenseMatrix& b);

/// Compares C with the truth. Where the inputs make the truth NaN or infinite, C must be NaN or the
/// same infinity, and an infinity is right as well where a number within the bound of the truth is
/// beyond FP32's range on its side; such elements count in none of the measures but compared
/// and overflows. An infinite bound accepts every finite C. smape_fp32_pct is measured when
/// `against_fp32` is set. The result is the same at any number of threads, and with a known truth,
/// which is that of A and B and saves most of the time. Throws an Error when the shapes do not fit
/// or a bound is negative or NaN.
ProductErrors compare_spmm(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                           const ErrorBound& bound, bool against_fp32 = false,
                           const SpmmTruth* known = nullptr);

}  // namespace tessera
