// Whole files of text.
#pragma once

#include <string>

namespace tessera {

/// Written beside and renamed.
void write_file(const std::string& path, const std::string& text);

}  // namespace tessera
