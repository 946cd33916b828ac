// The nearest known name to a misspelt one, for every "unknown X" message of the project.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The number of single-character insertions, deletions, substitutions and adjacent swaps that turn
/// `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

/// The known name closest to `name`: a third of its letters or two away, one for up to 3 letters;
/// else the only one that `name` begins, with three letters or more; else "".
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// The message "unknown kernel 'acc_smpp', did you mean 'acc_spmm'; known: acc_spmm, csr_spmm".
std::string unknown_name_message(std::string_view kind, std::string_view name,
                                 const std::vector<std::string>& known);

}  // namespace tessera
