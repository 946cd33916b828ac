// The inner loops of the products on the CPU. cpu_loops.cpp is compiled once for each width of the
// processor's vectors.
#pragma once

#include <cstdint>

namespace tessera::torch_cpu {

/// A sparse matrix without values; the arrays belong to the caller.
struct Pattern {
  std::int64_t rows = 0, cols = 0, nnz = 0;
  const std::int64_t* row_offsets = nullptr;  // [rows + 1]
  const std::int32_t* col_indices = nullptr;  // [nnz]
  // A^T has the values of A in another order: these are their indices there. Null means that the
  // order is the same.
  const std::int64_t* value_indices = nullptr;  // [nnz]
};

/// C = alpha A B + beta C, row-major without gaps. C is not read when beta is 0.
template <class Real>
struct Rows {
  const Pattern& a;
  const Real *values, *b;  // [nnz], [cols x n]
  std::int64_t n;
  Real* c;  // [rows x n]
  double alpha, beta;
};

/// out[i] = <row of X, row of Y> at the row and column of nonzero i, row-major without gaps.
template <class Real>
struct Dots {
  const Pattern& a;
  const Real *x, *y;  // [rows x depth], [cols x depth]
  std::int64_t depth;
  Real* out;  // [nnz]
};

/// Rows [begin, end) of a product.
struct Loops {
  void (*rows_of_float)(const Rows<float>&, std::int64_t begin, std::int64_t end);
  void (*rows_of_double)(const Rows<double>&, std::int64_t begin, std::int64_t end);
  void (*dots_of_float)(const Dots<float>&, std::int64_t begin, std::int64_t end);
  void (*dots_of_double)(const Dots<double>&, std::int64_t begin, std::int64_t end);
};

extern const Loops baseline_loops;  // for every processor of the architecture
#if defined(__x86_64__)
extern const Loops avx2_loops, avx512_loops;
#endif

}  // namespace tessera::torch_cpu
