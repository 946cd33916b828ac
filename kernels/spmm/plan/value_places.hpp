// The places of A's values in a packed matrix, for plans whose values change.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/permutation.hpp"
#include "formats/format.hpp"

namespace tessera {

/// For each element of the packed matrix's array of values: 1 + the index of the value of `a` that
/// it is, or 0 for padding. `rows` is the order in which a's rows are packed; empty for their own.
/// Packs the pattern once more. Throws Unsupported for a format whose values are in several arrays,
/// or in one with other data, and for 2139095039 nonzeros or more.
std::vector<std::uint32_t> value_places(const CsrMatrix& a, const Permutation& rows,
                                        const Format& format);

}  // namespace tessera
