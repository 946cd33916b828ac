// The values that the command line knows by name, for completion: those of KERNEL are the kernels,
// whichever verb takes one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct KnownValue {
  std::string value;
  std::string summary = {};  // "" where there is none
};

struct KnownValues {
  std::vector<KnownValue> values;
  bool files = false;  // files are values too
};

/// The values of what --help calls `value`, such as KERNEL, MATRIX, DEVICE or CONFIG. Any other
/// text may be a file.
KnownValues known_values(std::string_view value);

/// NAME=VALUE for each parameter of the variants with these names (kernels, formats, reorderings).
std::vector<KnownValue> known_parameters(const std::vector<std::string>& variants);

}  // namespace tessera
