// Is C right? The kernel's own arithmetic gives the bound, the oracle the truth, and the emulation
// the bits: this is where the three meet.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "experiments/points/point.hpp"
#include "formats/base/permutation.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {

/// What computed C.
struct Computation {
  const SpmmKernel& kernel;
  const PackedMatrix& a;          // as the kernel read it
  const Permutation& rows;        // order of a's rows, against the matrix of the oracle
  const std::string& generation;  // of the tensor cores
};

/// What computed a sparse C from sparse operands.
struct SparseComputation {
  const SpgemmKernel& kernel;
  const CsrMatrix& a;
  const CsrMatrix& b;
  const std::string& generation;
};

struct CheckedResult {
  Json fields;         // the record's "check"
  std::string reason;  // why C is wrong: the worst element and its tile; empty when it is right
};

/// Compares C with fp64 truth inside the bound that follows from the kernel's arithmetic. `a`, `b`
/// and `c` are in the order of the file.
///
/// The fields are the measures of oracle/product_errors.hpp. `backward_error` is the largest one,
/// with _mean, _p50, _p95 and _p99 beside it; likewise `condition_max` and `condition_geomean`.
/// `ulp_histogram` counts errors of at most `upper_ulp` ulps and more than the entry before allows,
/// `by_condition` has one entry per decade of condition numbers that is not empty. `smape_fp32_pct`
/// is there when `against_fp32` asks for it. Infinity is written as 1e300.
CheckedResult check_result(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                           const Computation& computation, bool against_fp32 = false);

/// The same of a sparse C, in the order of the operands, with "missing" and "extra" cells of its
/// pattern. A C whose shape or arrays are no matrix is wrong and has no fields. Extra cells are
/// wrong, and so are missing ones where the kernel keeps zeros; where it does not they are compared
/// as zeros.
CheckedResult check_result(const SparseComputation& computation, const CsrMatrix& c,
                           bool against_fp32 = false);

/// {"compared": .., "different": ..}, and the first element that differs. Throws an Error when the
/// shapes do not fit.
Json compare_bits(const DenseMatrix& c, const DenseMatrix& expected);

/// The same of sparse matrices, over the cells that either has: one that only one has is different,
/// and "absent" in the other.
Json compare_bits(const CsrMatrix& c, const CsrMatrix& expected);

/// What C's memory holds before a launch. All bits set: a NaN, but not 0x7fffffff, the only one the
/// hardware's arithmetic gives.
inline constexpr std::uint32_t kPoison = 0xffffffff;

/// C as a launch left it in memory that was poisoned before.
struct LaunchOutput {
  DenseMatrix c;
  std::int64_t unwritten = 0;  // elements of C that still are poison
  bool guards_intact = true;   // the guard bands still are poison
};

/// Takes memory apart: `guard` elements, C [rows x cols], `guard` elements.
LaunchOutput read_output(std::span<const float> memory, std::size_t guard, std::int64_t rows,
                         std::int64_t cols);

/// Why C is wrong whatever its numbers: written outside, not written, or other bits than the
/// emulation's. `bits` is compare_bits' or null. Empty when nothing is.
std::string launch_fault(std::int64_t unwritten, bool guards_intact, const Json& bits);

/// Where a matrix that was unpacked differs from the one that was packed; empty when it does not,
/// to the bits of every value.
std::string round_trip_fault(const CsrMatrix& unpacked, const CsrMatrix& packed);

}  // namespace tessera
