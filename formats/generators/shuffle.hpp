// The same matrix under random labels. A shuffle destroys the order of the file, so that
// reorderings have something to restore and kernels nothing to exploit.
#pragma once

#include <cstdint>

#include "formats/base/matrix.hpp"

namespace tessera {

enum class ShuffledSides { kRows, kCols, kBoth, kSymmetric };

/// The matrix with its rows, its columns, both by different orders, or both by one order (P A P^T)
/// shuffled; each order is equally likely. Throws Unsupported when a rectangular matrix is to be
/// shuffled symmetrically.
CsrMatrix shuffled(const CsrMatrix& matrix, ShuffledSides sides, std::int64_t seed);

}  // namespace tessera
