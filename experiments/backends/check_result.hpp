// Checks C: the kernel's arithmetic gives the bound, the oracle the truth, and the emulation the
// bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "experiments/records/record.hpp"
#include "formats/base/permutation.hpp"
#include "kernels/sddmm_kernel.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"
#include "oracle/spmm_oracle.hpp"

namespace tessera {

/// The computation behind a C.
struct Computation {
  const SpmmKernel& kernel;
  const PackedMatrix& a;          // as the kernel read it
  const Permutation& rows;        // order of a's rows, against the matrix of the oracle
  const std::string& generation;  // of the tensor cores
};

/// The computation behind a sparse C.
struct SparseComputation {
  const SpgemmKernel& kernel;
  const CsrMatrix& a;
  const CsrMatrix& b;
  const std::string& generation;
  const CsrMatrix* mask = nullptr;  // C has its cells; nullptr: those of the product
};

/// The computation behind an S = X Y^T at the nonzeros of A.
struct SampledComputation {
  const SddmmKernel& kernel;
  const CsrMatrix& a;
  const DenseMatrix& x;
  const DenseMatrix& y;
  const std::string& generation;
};

struct CheckedResult {
  std::optional<ProductCheck> check;  // absent for a sparse C that is no matrix
  std::string reason;  // why C is wrong: the worst element and its tile; empty when it is right
};

/// Compares C with fp64 truth inside the bound that follows from the kernel's arithmetic. `a`, `b`
/// and `c` are in the order of the file.
///
/// The measures are those of oracle/product_errors.hpp. `ulp_histogram` counts errors of at most
/// `upper_ulp` ulps and more than the entry before allows, `by_condition` has one entry per decade
/// of condition numbers that is not empty. `smape_fp32_pct` is present when `against_fp32` is true.
/// Infinity becomes 1e300. `known` is the truth of A and B, where the caller has it already.
CheckedResult check_result(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                           const Computation& computation, bool against_fp32 = false,
                           const SpmmTruth* known = nullptr);

/// The same comparison for a sparse C, in the order of the operands, with missing and extra cells
/// of its pattern. A C whose shape or arrays are no matrix is wrong and has no check. Extra cells
/// are wrong, and so are missing ones where the kernel keeps zeros; where it does not they are
/// compared as zeros.
CheckedResult check_result(const SparseComputation& computation, const CsrMatrix& c,
                           bool against_fp32 = false);

/// The same comparison for an S with A's pattern, in the order of the operands. Throws an Error
/// when it has another.
CheckedResult check_result(const SampledComputation& computation, const CsrMatrix& s,
                           bool against_fp32 = false);

/// Counts the elements whose bits differ, and finds the first. Throws an Error when the shapes do
/// not fit.
BitComparison compare_bits(const DenseMatrix& c, const DenseMatrix& expected);

/// The same comparison for sparse matrices, over the cells that either has: a cell that only one
/// has is different, and "absent" in the other.
BitComparison compare_bits(const CsrMatrix& c, const CsrMatrix& expected);

/// The content of C's memory before a launch. All bits set: a NaN, but not 0x7fffffff, the only one
/// the hardware's arithmetic gives.
inline constexpr std::uint32_t kPoison = 0xffffffff;

/// C as a launch left it in memory that was poisoned before.
struct LaunchOutput {
  DenseMatrix c = {};
  std::int64_t unwritten = 0;  // elements of C that still are poison
  bool guards_intact = true;   // the guard bands still are poison
};

/// Splits memory into its parts: `guard` elements, C [rows x cols], `guard` elements.
LaunchOutput read_output(std::span<const float> memory, std::size_t guard, std::int64_t rows,
                         std::int64_t cols);

/// The reason why C is wrong whatever its numbers: the kernel wrote outside C, left elements
/// unwritten, or gave other bits than the emulation (`bits`, where it was compared). Empty when C
/// is right.
std::string launch_fault(std::int64_t unwritten, bool guards_intact,
                         const std::optional<BitComparison>& bits);

/// The first difference between a matrix and what it was packed as, unpacked, bits of values
/// included; empty when they are equal. A matrix that is in a file gives its memory back part by
/// part, where the packed one is unpacked so.
std::string round_trip_fault(const PackedMatrix& packed, const CsrMatrix& matrix);

}  // namespace tessera
