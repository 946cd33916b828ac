// Where the files that come with the program are: device descriptions, configs, figure scripts.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Path of a shipped file or folder, given as in the source tree ("model/devices"). Looked for
/// under $TESSERA_HOME, then ../share/tessera beside the folder of the executable (an installed
/// bundle), then in the source tree the program was built from. Throws an Error that lists these
/// places.
std::string shipped_path(std::string_view relative);

}  // namespace tessera
