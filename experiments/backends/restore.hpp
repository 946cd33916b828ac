// Rows of C back into the order of the file: what it takes on this CPU.
#pragma once

#include "experiments/points/point.hpp"
#include "formats/base/matrix.hpp"
#include "formats/base/permutation.hpp"

namespace tessera {

/// P^T C: row old_of_new[p] of the result is row p of c.
DenseMatrix restore_rows(DenseMatrix c, const Permutation& rows);

/// The record's "unpermute": median and spread of several such copies, `rows` inverted before. Rows
/// that have stayed take no time.
Json time_restoring(const DenseMatrix& c, const Permutation& rows);

/// The same for rows that have stayed.
Json nothing_to_restore();

}  // namespace tessera
