// Whole files of text.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

namespace tessera {

/// Makes the folder of a file. Throws an Error when it cannot.
void make_folder_of(const std::string& path);

/// Written beside and renamed.
void write_file(const std::string& path, const std::string& text);

/// What `write` writes, likewise.
void write_file(const std::string& path, const std::function<void(std::ostream&)>& write);

}  // namespace tessera
