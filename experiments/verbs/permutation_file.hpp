// Permutations as files: old_of_new, one index a line, or a NumPy array (.npy).
#pragma once

#include <string>

#include "formats/base/permutation.hpp"
#include "reorder/reordering.hpp"

namespace tessera {

/// True for names that end in .txt or .npy.
bool is_permutation_file_name(const std::string& path);

void write_permutation(const std::string& path, const Permutation& permutation);

/// Throws an Error with file and line for what is no permutation.
Permutation read_permutation(const std::string& path);

/// The order `matrix info --apply` and `matrix convert --apply` use: rows by the permutation, and
/// columns too when `symmetric`. Throws an Error when the sizes do not fit.
Order order_from_file(const std::string& path, const CsrMatrix& matrix, bool symmetric);

}  // namespace tessera
