// The arithmetic of SpGEMM kernels that expand all products of A and B before they add them, for
// their emulations.
#pragma once

#include <cstdint>
#include <functional>

#include "formats/base/matrix.hpp"

namespace tessera {

/// Returns the number of the piece that a product belongs to. Products are numbered over all of A
/// B, row by row and within a row by A's nonzeros; the first product of the row has number
/// `row_begin`. Piece numbers do not descend within a row.
using PieceOfProduct = std::function<std::int64_t(std::int64_t product, std::int64_t row_begin)>;

/// Computes A B in FP32 with rounded products. The products of an element within a piece are added
/// from left to right, and then the sums of its pieces. Throws an Error where the shapes do not
/// fit.
CsrMatrix sum_products(const CsrMatrix& a, const CsrMatrix& b, const PieceOfProduct& piece);

}  // namespace tessera
