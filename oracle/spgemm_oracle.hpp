// The truth of C = A B with both factors sparse, in fp64, and the errors of a computed C.
//
// Kernels compute C by rows, tiles or outer products; the truth is computed by columns: column j of
// C is the sum of the columns of A that column j of B selects (product_columns.hpp). Products are
// exact and summed with compensation as in spmm_oracle.hpp, with the same error. The pattern is
// structural: (i, j) is in it when some a_ik and b_kj are stored, for any values and any
// cancellation. A comparison holds one column of the truth per thread, at most 16 bytes per nonzero
// of B and 8 per column of A, and some MiB.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "oracle/product_errors.hpp"

namespace tessera {

/// A B and |A||B| in compressed sparse rows; columns ascend within a row.
struct TrueSparse {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::vector<std::int64_t> row_offsets;  // [rows + 1]
  std::vector<std::int32_t> col_indices;  // [nnz]
  std::vector<double> product;            // [nnz]
  std::vector<double> magnitude;          // [nnz]
};

/// A B and |A||B| in fp64. Throws an Error when the shapes do not fit.
TrueSparse spgemm_fp64(const CsrMatrix& a, const CsrMatrix& b);

/// C = A B in FP32 with the structural pattern: each element is a chain of fused multiply-adds from
/// zero, in the order of A's columns. It is tSparse's reference for SMAPE. Throws an Error when the
/// shapes do not fit.
CsrMatrix spgemm_fp32(const CsrMatrix& a, const CsrMatrix& b);

struct SpgemmErrors {
  ProductErrors values;      // over the elements stored in C or in the truth
  std::int64_t missing = 0;  // stored in the truth's pattern, not in C: compared as 0
  std::int64_t extra = 0;    // stored in C, not in the truth's pattern: compared with 0

  bool same_pattern() const { return missing == 0 && extra == 0; }
};

/// Compares C with the truth as compare_spmm does (spmm_oracle.hpp); the bound is per row of A. The
/// patterns are compared, not judged: a kernel's own contract decides whether it may omit zeros.
/// Throws an Error when the shapes do not fit, C is no valid matrix, or a bound is negative or NaN.
SpgemmErrors compare_spgemm(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& c,
                            const ErrorBound& bound, bool against_fp32 = false);

/// Compares C, whose cells are those of a mask, with the truth at these cells: a cell without a
/// product is 0. The bound is per row of A. Each cell is a dot product of a row of A and a column
/// of B, summed with compensation as above. Throws an Error when the shapes do not fit, C is no
/// valid matrix, or a bound is negative or NaN.
ProductErrors compare_masked_spgemm(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& c,
                                    const ErrorBound& bound, bool against_fp32 = false);

}  // namespace tessera
