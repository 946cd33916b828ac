// The same matrix under other labels: what destroys an order, so that reorderings have something
// to restore and kernels nothing to exploit.
#pragma once

#include <cstdint>

#include "formats/base/matrix.hpp"

namespace tessera {

enum class ShuffledSides { kRows, kCols, kBoth, kSymmetric };

/// Rows, columns, both by different orders, or both by one order (P A P^T), each order equally
/// likely. Throws Unsupported when a rectangular matrix is to be shuffled symmetrically.
CsrMatrix shuffled(const CsrMatrix& matrix, ShuffledSides sides, std::int64_t seed);

}  // namespace tessera
