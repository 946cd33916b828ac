// Products on the CPU, on the threads of torch: C = alpha A B + beta C, and X Y^T at the places of
// A's nonzeros. Elements of C are summed in double, in the order of A's nonzeros, and rounded once;
// sampled products are summed in a fixed order. So neither depends on the number of threads or on
// the processor.
#pragma once

#include <cstdint>

#include "python/torch_operators/cpu_loops.hpp"

namespace tessera::torch_cpu {

/// C [rows x n] = alpha A B + beta C for B [cols x n], both row-major without gaps. C is not read
/// when beta is 0.
template <class Real>
void spmm(const Pattern& a, const Real* values, const Real* b, std::int64_t n, Real* c,
          double alpha, double beta);

/// out[i] = <row of X, row of Y> at the row and column of nonzero i, for X [rows x depth] and
/// Y [cols x depth], both row-major without gaps.
template <class Real>
void sddmm(const Pattern& a, const Real* x, const Real* y, std::int64_t depth, Real* out);

/// Converts FP16 and BF16 to FP32 and back, rounding to the nearest even.
void to_float(const std::uint16_t* from, bool bfloat16, std::int64_t count, float* to);
void from_float(const float* from, bool bfloat16, std::int64_t count, std::uint16_t* to);

}  // namespace tessera::torch_cpu
