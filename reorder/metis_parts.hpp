// Parts of a square matrix for a product on several GPUs, by METIS.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// The part of each row, in [0, parts): k-way parts of A + A^T (Karypis and Kumar 1998) that need
/// few of each other's rows, METIS's objective "communication volume", and whose nonzeros differ by
/// about 1 %. [rows] Throws Unsupported unless A is square, and for more edges than METIS counts;
/// an Error for parts < 1. Memory and time as those of the order "metis".
std::vector<std::int32_t> metis_parts(const CsrMatrix& matrix, int parts, std::int64_t seed = 1);

}  // namespace tessera
