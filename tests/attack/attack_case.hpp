// One case of the attack on the SpMM kernels: a matrix that is easy to get wrong, a B, a kernel
// with one of its choices, and alpha and beta. A seed gives a case, a file keeps one.
#pragma once

#include <cstdint>
#include <string>

#include "formats/base/matrix.hpp"
#include "kernels/scaling.hpp"
#include "tests/kernel_choices.hpp"

namespace tessera {

struct AttackCase {
  Choice choice;
  std::string generation = "hopper";  // of the tensor cores that are emulated
  Scaling scaling;
  CsrMatrix a;
  DenseMatrix b;  // [cols of A x n]

  /// C before the launch, which beta scales. [rows of A x n]
  DenseMatrix old_c() const { return random_dense(a.rows, b.cols, 1); }
};

/// The case of a seed, the same on every machine. Half of the cases have a choice of
/// kernel_choices(), the others random values of that kernel's parameters beside it.
AttackCase draw_case(std::uint64_t seed);

/// 83 x 157: rows of a few nonzeros, one that is full, one of every other column, and some that are
/// empty.
CsrMatrix uneven_matrix();

/// True for a kernel of kernel_choices() that adds parts of an emulated sum to beta C in memory.
bool adds_parts_to_c(const Choice& choice);

/// "acc_spmm (columns = 32), A 3 x 4 with 2 nonzeros, N = 1".
std::string describe(const AttackCase& given);

/// Writes the case as JSON with every value, and reads it back. A NaN loses its sign and payload.
/// Both throw an Error that names the file.
void save_case(const AttackCase& given, const std::string& path);
AttackCase load_case(const std::string& path);

}  // namespace tessera
