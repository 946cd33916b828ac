// The matrices that the shipped sets name, and where each is published: the catalogue of
// `tessera matrix fetch` (experiments/configs/catalogue/matrices.toml).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/config/config.hpp"

namespace tessera {

struct MatrixCatalogue {
  std::map<std::string, std::string> fetch;      // matrix -> its collection's name, group/name
  std::map<std::string, std::string> elsewhere;  // matrix -> why it is in no collection
  std::map<std::string, std::string> sha256;     // group/name -> what its file has to have
};

/// Throws an Error with file and line for a catalogue that cannot be read.
MatrixCatalogue matrix_catalogue();

/// The names of the shipped sets of matrices.
std::vector<std::string> shipped_matrix_sets();

/// The matrices that a name stands for: itself, or those of "@set", looked for in ./sets and among
/// the shipped sets. shuffle(of=X) stands for X, which is the file that it needs. Notes sets that a
/// paper counts in `counted`. Throws an Error with the nearest name for an unknown set, and
/// CollectionIndexAbsent.
std::vector<std::string> matrices_of(const std::string& name_or_set,
                                     std::vector<CountedSet>& counted);

}  // namespace tessera
