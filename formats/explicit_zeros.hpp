// Explicit zeros of A in a format that stores whole blocks: there a zero looks like padding.
//
// Such a format keeps the cells that hold them in one more array, `explicit_zeros`, which is part
// of the footprint and exists only when A has explicit zeros, +0 or -0; the published footprint is
// that of a matrix without. A cell counts from the start of the format's array of values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// Collects the cells while a matrix is packed.
class ExplicitZeros {
 public:
  explicit ExplicitZeros(const CsrMatrix& matrix);

  /// Nonzero number `nonzero` of the matrix (in CSR order), a zero, is stored in `cell`. Every
  /// explicit zero has to be placed, once; from any thread.
  void place(std::int64_t nonzero, std::int64_t cell) {
    cells_[std::ranges::lower_bound(nonzeros_, nonzero) - nonzeros_.begin()] = cell;
  }

  /// Ascending; after the last is placed.
  std::vector<std::int64_t> take_cells();

 private:
  std::vector<std::int64_t> nonzeros_;  // [explicit zeros] where they are in CSR, ascending
  std::vector<std::int64_t> cells_;     // [explicit zeros] where each is stored
};

/// Whether the cell holds a nonzero or an explicit zero of A, as opposed to padding.
inline bool holds_nonzero(const std::vector<float>& values,
                          const std::vector<std::int64_t>& explicit_zeros, std::int64_t cell) {
  return values[cell] != 0 || std::ranges::binary_search(explicit_zeros, cell);
}

}  // namespace tessera
