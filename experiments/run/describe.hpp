// What a record says of a matrix and of its packed form, whatever was done with them.
#pragma once

#include "experiments/points/point.hpp"
#include "formats/base/matrix.hpp"
#include "formats/format.hpp"

namespace tessera {

/// Sizes and, where the format has them, tiles: the record's "prep".
Json describe(const PackedMatrix& packed);

/// Bytes of each array.
Json describe_arrays(const PackedMatrix& packed);

/// The figures of `tessera matrix info`: the record's "statistics". Counts of A A too where
/// `square` asks for them and A has a square.
Json describe(const CsrMatrix& matrix, bool square);

}  // namespace tessera
