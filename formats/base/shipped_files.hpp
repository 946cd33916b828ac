// The places of the files that come with the program: device descriptions, configs, figure scripts.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// The path of a shipped file or folder, given as in the source tree ("model/devices"). The search
/// order is $TESSERA_HOME, ../share/tessera beside the folder of the executable (an installed
/// bundle) and beside that of the shared library (a Python wheel), and the source tree that the
/// program was built from. Throws an Error that lists these
/// places when none has it.
std::string shipped_path(std::string_view relative);

}  // namespace tessera
