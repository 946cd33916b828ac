// The figures of a matrix and of its packed form that go into a record.
#pragma once

#include "experiments/records/record.hpp"
#include "formats/base/matrix.hpp"
#include "formats/format.hpp"

namespace tessera {

/// Adds the sizes of the packed matrix and, where the format has them, its tiles.
void add_packed(const PackedMatrix& packed, PreparationPart& prep);

/// The bytes of each array.
std::map<std::string, std::int64_t> array_bytes(const PackedMatrix& packed);

/// The footprint of a packed matrix and its tiles, and each array: footprint_bytes, index_bytes,
/// tiles, mean_nnz_tc, tile_density, padding_ratio, arrays.
Json describe_packed(const PackedMatrix& packed);

/// The figures of `tessera matrix info`, with the counts of A A when `square` is true and A is
/// square.
Figures describe(const CsrMatrix& matrix, bool square);

}  // namespace tessera
