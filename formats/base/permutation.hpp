// A relabelling of rows or columns, with its direction in its name.
//
// Row and column permutations are separate values of this one type. With rows permuted by P and
// columns by Q, (P A Q^T)(Q B) = P (A B): permute B's rows by the column permutation, and undo the
// row permutation on C.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

class Permutation {
 public:
  Permutation() = default;

  /// Position p of the new order holds old index old_of_new[p]. Throws an Error unless every index
  /// of [0, size) occurs once.
  explicit Permutation(std::vector<std::int32_t> old_of_new);

  static Permutation identity(std::int32_t size);

  std::int32_t size() const { return static_cast<std::int32_t>(old_of_new_.size()); }
  std::span<const std::int32_t> old_of_new() const { return old_of_new_; }
  bool is_identity() const;
  Permutation inverse() const;

  friend bool operator==(const Permutation&, const Permutation&) = default;

 private:
  std::vector<std::int32_t> old_of_new_;  // [size]
};

/// P A: row p of the result is row old_of_new[p] of `matrix`. Like the functions below, it throws
/// an Error when the permutation has another size than the matrix has rows or columns.
CsrMatrix permute_rows(const CsrMatrix& matrix, const Permutation& rows);

/// A Q^T: column p of the result is column old_of_new[p] of `matrix`; rows are sorted again.
CsrMatrix permute_cols(const CsrMatrix& matrix, const Permutation& cols);

/// P B: row p of the result is row old_of_new[p] of `dense`.
DenseMatrix permute_rows(const DenseMatrix& dense, const Permutation& rows);

}  // namespace tessera
