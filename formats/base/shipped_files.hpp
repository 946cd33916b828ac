// The places of the files that come with the program: device descriptions, configs, figure scripts.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// The path of a shipped file or folder, given as in the source tree ("model/devices"). The search
/// order is $TESSERA_HOME, ../share/tessera beside the folder of the executable (an installed
/// bundle) and beside that of the shared library (a Python wheel), and the source tree that the
/// program was built from. Throws Unsupported with a list of these places when none has it: what
/// can do without the file goes on, as a plan does without the formulas that read a device's.
std::string shipped_path(std::string_view relative);

}  // namespace tessera
