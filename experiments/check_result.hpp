// Is C right? The kernel's own arithmetic gives the bound, the oracle the truth, and the emulation
// the bits: this is where the three meet (house.md, "Emulate, simulate, oracle").
#pragma once

#include <string>

#include "experiments/point.hpp"
#include "formats/base/permutation.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {

/// What computed C.
struct Computation {
  const SpmmKernel& kernel;
  const PackedMatrix& a;          // as the kernel read it
  const Permutation& rows;        // order of a's rows, against the matrix of the oracle
  const std::string& generation;  // of the tensor cores
};

struct CheckedResult {
  Json fields;         // the record's "check"
  std::string reason;  // why C is wrong: the worst element and its tile; empty when it is right
};

/// Compares C with fp64 truth inside the bound that follows from the kernel's arithmetic. `a`, `b`
/// and `c` are in the order of the file.
CheckedResult check_result(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                           const Computation& computation);

/// {"compared": .., "different": ..}, and the first element that differs.
Json compare_bits(const DenseMatrix& c, const DenseMatrix& expected);

}  // namespace tessera
