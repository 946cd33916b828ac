// Writing files of the cache: under a temporary name, then renamed, so that no reader ever sees a
// partial file.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace tessera {

/// Writes a file of the cache and makes its folders. The first failure of the process prints a
/// warning on stderr; later ones are silent.
void write_cache_file(const std::string& path, std::span<const std::byte> bytes);

/// The bytes of a file of the cache; nothing when there is none. What is there and cannot be read
/// as a file is reported.
std::optional<std::string> read_cache_file(const std::string& path);

/// Reports on stderr why an existing file is not used.
void report_unused(const std::string& path, const std::string& problem);

}  // namespace tessera
