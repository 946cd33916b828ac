// The nearest known name to a misspelt one, for every "unknown X" message of the project.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Number of single-character insertions, deletions, substitutions and adjacent swaps between a and
/// b.
int edit_distance(std::string_view a, std::string_view b);

/// The known name closest to `name`, or "" when none is close enough to be a likely misspelling
/// (more than a third of its length, and at least two edits, away).
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// "unknown kernel 'acc_smpp', did you mean 'acc_spmm'; known: acc_spmm, csr_spmm"
std::string unknown_name_message(std::string_view kind, std::string_view name,
                                 const std::vector<std::string>& known);

}  // namespace tessera
