// Options of the C interface, which grow: a caller that was compiled for an earlier version passes
// a shorter struct.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "formats/base/check.hpp"

namespace tessera::abi {

/// The defaults, overwritten by as much as the caller has. Throws an Error for a size that is that
/// of no version.
template <class Options>
Options options_of(const Options* given, const Options& defaults) {
  Options options = defaults;
  if (given == nullptr) return options;
  require(given->size >= static_cast<std::int64_t>(sizeof given->size) &&
              given->size <= static_cast<std::int64_t>(sizeof(Options)),
          "the options have {} bytes, and this library knows up to {}: they are filled by "
          "their init function first",
          given->size, sizeof(Options));
  std::memcpy(&options, given, static_cast<std::size_t>(given->size));
  return options;
}

/// The texts of an array that may be null when it has none.
inline std::vector<std::string> texts_of(const char* name, std::int64_t count,
                                         const char* const* texts) {
  require(count >= 0, "{} {} cannot be", count, name);
  require(texts != nullptr || count == 0, "{} {} are a null pointer", count, name);
  std::vector<std::string> copies;
  for (std::int64_t i = 0; i < count; ++i) {
    require(texts[i] != nullptr, "number {} of the {} is a null pointer", i, name);
    copies.emplace_back(texts[i]);
  }
  return copies;
}

}  // namespace tessera::abi
