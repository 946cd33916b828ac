// Manual pages in man(7), one for the program and one for each verb.
#pragma once

#include <string>

#include "experiments/verbs/command_description.hpp"

namespace tessera {

/// The facts about the program that every page states.
struct ManualFacts {
  std::string version;  // "0.1.0"
  std::string date;     // "2026-11-22"
  std::string footer;   // exit codes
};

/// The page of the program or of a verb, its sub-commands included.
std::string man_page(const CommandDescription& command, const ManualFacts& facts);

/// "tessera-multiply"
std::string man_page_name(const CommandDescription& command);

}  // namespace tessera
