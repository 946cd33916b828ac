// Sets of matrices that a paper states by a condition, not by names: queries over the index of the
// SuiteSparse Matrix Collection.
#pragma once

#include <string>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/io/collection_index.hpp"

namespace tessera {

/// The index of the collection is needed, and is not on this machine.
class CollectionIndexAbsent : public Error {
 public:
  using Error::Error;
};

/// The names of the matrices of an index that meet a condition, by ascending nonzeros: the bare
/// name, or GROUP/NAME where the collection has a name in several groups. The condition is an
/// expression over the numbers of CollectionMatrix. `place` stands in messages; throws an Error for
/// a broken expression and for an unknown variable.
std::vector<std::string> select_matrices(const CollectionIndex& index, const std::string& query,
                                         const std::string& place);

}  // namespace tessera
