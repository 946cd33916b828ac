// The text of --help.
#pragma once

#include <string>

#include "experiments/verbs/command_description.hpp"

namespace tessera {

/// Lines of at most `width` columns where words allow it.
std::string help_text(const CommandDescription& command, int width);

/// "tessera multiply [OPTIONS] MATRIX"
std::string usage_text(const CommandDescription& command);

/// "-o, --out FILE", and the meaning with default and choices, as --help and the man page say it.
std::string option_heading(const OptionDescription& option);
std::string option_meaning(const OptionDescription& option);

}  // namespace tessera
