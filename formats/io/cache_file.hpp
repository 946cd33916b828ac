// Files of the cache, as all its parts write them: beside under a name of its own, then renamed, so
// that nobody ever sees half of one.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tessera {

/// Writes a file of the cache and the folders it lies in. Where that fails there is one warning on
/// stderr, however many files follow.
void write_cache_file(const std::string& path, std::span<const std::byte> bytes);

/// Says on stderr why a file that is there is not used.
void tell_unused(const std::string& path, const std::string& problem);

}  // namespace tessera
