// Restores the order of C's rows to that of the file on the CPU, and times it.
#pragma once

#include "experiments/records/record.hpp"
#include "formats/base/matrix.hpp"
#include "formats/base/permutation.hpp"

namespace tessera {

/// P^T C: row old_of_new[p] of the result is row p of c.
DenseMatrix restore_rows(DenseMatrix c, const Permutation& rows);

/// The median and spread of several such copies, with `rows` inverted before. Rows that have stayed
/// take no time.
RestorePart time_restoring(const DenseMatrix& c, const Permutation& rows);

}  // namespace tessera
