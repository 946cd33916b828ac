// Completion of command lines. The shells' scripts are thin: they call the program, which knows
// what may stand next from the same declarations as --help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/verbs/command_description.hpp"
#include "experiments/verbs/known_values.hpp"

namespace tessera {

/// The words that may stand in place of the last of `words`, which follow the program's name. The
/// last one is incomplete, and "" at the beginning of a word.
KnownValues completions(const CommandDescription& program, const std::vector<std::string>& words);

/// A script that gives this shell (bash, zsh or fish) the completion of the program.
std::string completion_script(std::string_view shell);

}  // namespace tessera
