// Explicit zeros of A in a format that stores whole blocks, where a zero looks like padding.
//
// Such a format lists the cells that hold them in one more array, `explicit_zeros`, which is part
// of the footprint and exists only when A has explicit zeros, +0 or -0; published footprints are
// those of matrices without. A cell is an index into the format's array of values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// Collects the cells of A's explicit zeros while the matrix is packed.
class ExplicitZeros {
 public:
  explicit ExplicitZeros(const CsrMatrix& matrix);

  /// Notes that nonzero number `nonzero` of the matrix (in CSR order), a zero, is stored in `cell`.
  /// Place every explicit zero exactly once; any thread may.
  void place(std::int64_t nonzero, std::int64_t cell) {
    cells_[std::ranges::lower_bound(nonzeros_, nonzero) - nonzeros_.begin()] = cell;
  }

  /// The cells in ascending order, once all are placed.
  std::vector<std::int64_t> take_cells();

 private:
  std::vector<std::int64_t> nonzeros_;  // [explicit zeros] where they are in CSR, ascending
  std::vector<std::int64_t> cells_;     // [explicit zeros] where each is stored
};

/// True when the cell holds a nonzero or an explicit zero of A, not padding.
inline bool holds_nonzero(const std::vector<float>& values,
                          const std::vector<std::int64_t>& explicit_zeros, std::int64_t cell) {
  return values[cell] != 0 || std::ranges::binary_search(explicit_zeros, cell);
}

}  // namespace tessera
