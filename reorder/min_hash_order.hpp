// Rows by the least hashes of their columns (MinHash, Broder 1997): rows with many columns in
// common come near each other, in time linear in the nonzeros.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// Old row indices: by the least of one hash over the columns of a row, of equal ones by the least
/// of a second; rows without a column last. Two rows agree in the first with a probability of the
/// Jaccard index of their columns. Parallel.
std::vector<std::int32_t> min_hash_order(const CsrMatrix& matrix, std::uint64_t seed);

}  // namespace tessera
