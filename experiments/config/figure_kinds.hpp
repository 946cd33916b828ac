// The kinds of figures: the scripts of notebooks/ that define `KIND = Kind(...)`.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// Sorted. Empty where the scripts are not installed.
std::vector<std::string> figure_kinds();

}  // namespace tessera
