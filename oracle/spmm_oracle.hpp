// The truth of C = A B in fp64, and how far a computed C is from it.
//
// Products of two floats are exact in double; they are summed with compensation (Neumaier 1974), so
// that the truth stays true under cancellation. C's truth is made row by row and compared at once:
// it is never held whole. This room knows matrices and nothing of formats or kernels.
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

struct SpmmErrors {
  // SMAPE as tSparse defines it (section 5.3): 100/n sum |x - y| / (|x| + |y|), 0/0 counted as 0;
  // in percent, at most 100.
  double smape_pct = 0;
  double relative_frobenius = 0;  // ||C - truth||_F / ||truth||_F
  double max_relative = 0;        // largest |error| / |truth| where the truth is not 0
  double backward_error = 0;      // largest |error| / (|A||B|): componentwise
  double max_ulp = 0;             // largest |error| in units in the last place of the FP32 truth
  double bound_ratio = 0;         // largest |error| / bound; 0/0 counted as 0
  std::int64_t compared = 0;
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

/// Rows [begin, end) of A B and of |A||B| in fp64.
struct TrueRows {
  std::vector<double> product;    // [(end - begin) * n]
  std::vector<double> magnitude;  // [(end - begin) * n]
};
TrueRows spmm_fp64(const CsrMatrix& a, const DenseMatrix& b, std::int64_t begin, std::int64_t end);

/// Compares C with the truth. Where the inputs make the truth NaN or infinite, C must be NaN or the
/// same infinity; such elements count in none of the error measures. Same result at any number of
/// threads. Throws an Error when the shapes do not fit.
SpmmErrors compare_spmm(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                        const ErrorBound& bound);

}  // namespace tessera
