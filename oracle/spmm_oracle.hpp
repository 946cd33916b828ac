// The truth of C = A B in fp64, and how far a computed C is from it.
//
// Products of two floats are exact in double; they are summed with compensation (Sum2 of Ogita,
// Rump and Oishi 2005), as if in twice fp64's precision and rounded once: the truth is off by at
// most 2^-53 |AB| + n^2 2^-106 |A||B| for a row of n terms. C's truth is made row by row and
// compared at once: it is never held whole. This room knows matrices and nothing of formats or
// kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// How far element (i, j) may be off: relative[i] * (|A||B|)_ij + absolute[i].
struct ErrorBound {
  std::vector<double> relative;  // [rows]
  std::vector<double> absolute;  // [rows]
};

/// The measures are over the elements that are finite in C and in truth; non_finite counts the rest
/// that went wrong, and makes bound_ratio infinite.
struct SpmmErrors {
  // SMAPE as tSparse defines it (Eq. 3): 100/n sum |x - y| / (|x| + |y|), 0/0 counted as 0;
  // in percent, at most 100.
  double smape_pct = 0;
  double relative_frobenius = 0;  // ||C - truth||_F / ||truth||_F
  double max_relative = 0;        // largest |error| / |truth| where the truth is not 0
  double backward_error = 0;      // largest |error| / (|A||B|): componentwise
  double max_ulp = 0;             // largest |error| in ulps of the truth rounded to FP32
  double bound_ratio = 0;         // largest |error| / bound; 0/0 counted as 0, x/0 as infinity
  std::int64_t compared = 0;      // all elements
  std::int64_t beyond_bound = 0;  // finite elements with |error| > bound
  std::int64_t non_finite = 0;    // NaN or infinite where the truth is not the same

  /// The element with the largest bound ratio; one that is wrongly NaN or infinite before all.
  struct Worst {
    std::int64_t row = 0;
    std::int64_t col = 0;
    double expected = 0;
    double computed = 0;
    double bound = 0;
  } worst;

  bool ok() const { return beyond_bound == 0 && non_finite == 0; }
};

/// Rows [begin, end) of A B and of |A||B| in fp64. Throws an Error when the shapes do not fit.
struct TrueRows {
  std::vector<double> product;    // [(end - begin) * n]
  std::vector<double> magnitude;  // [(end - begin) * n]
};
TrueRows spmm_fp64(const CsrMatrix& a, const DenseMatrix& b, std::int64_t begin, std::int64_t end);

/// Compares C with the truth. Where the inputs make the truth NaN or infinite, C must be NaN or the
/// same infinity, and where the truth is within the bound of FP32's range or beyond it, the
/// infinity of its sign is right as well; such elements count in none of the measures. An infinite
/// bound accepts every finite C. Same result at any number of threads. Throws an Error when the
/// shapes do not fit or a bound is negative or NaN.
SpmmErrors compare_spmm(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                        const ErrorBound& bound);

}  // namespace tessera
