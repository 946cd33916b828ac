// An order of rows that brings similar ones together, by all threads.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// The rows in the lexicographic order of their sketches: the eight smallest hashes of their
/// columns, ascending. Two rows agree in the first hash with a probability of the share of their
/// columns that are common (Broder 1997), and of rows that agree the following hashes bring the
/// most similar ones together, hubs or not. Ties keep the order of the file. [rows] Time O(nnz +
/// rows log rows), memory 68 bytes per row.
std::vector<std::int32_t> order_by_sketches(const CsrMatrix& matrix);

}  // namespace tessera
