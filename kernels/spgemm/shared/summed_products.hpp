// The arithmetic of SpGEMM kernels that expand all products of A and B before they add any up: what
// their emulations compute.
#pragma once

#include <cstdint>
#include <functional>

#include "formats/base/matrix.hpp"

namespace tessera {

/// The piece of its row that a product is in: products are counted over all of A B, row by row and
/// in a row by A's nonzeros; the first of the row is number `row_begin`. Never descends in a row.
using PieceOfProduct = std::function<std::int64_t(std::int64_t product, std::int64_t row_begin)>;

/// A B in FP32: products are rounded; those of an element within a piece are added from left to
/// right, and so are then the sums of its pieces. Throws an Error when the shapes do not fit.
CsrMatrix sum_products(const CsrMatrix& a, const CsrMatrix& b, const PieceOfProduct& piece);

}  // namespace tessera
