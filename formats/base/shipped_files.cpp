#include "formats/base/shipped_files.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

/// The file that holds this code: the shared library in a process that is not the program. Empty
/// when the loader does not know.
std::filesystem::path own_file() {
  Dl_info found = {};
  if (dladdr(reinterpret_cast<const void*>(&own_file), &found) == 0 || found.dli_fname == nullptr)
    return {};
  return found.dli_fname;
}

}  // namespace

std::string shipped_path(std::string_view relative) {
  namespace fs = std::filesystem;
  std::vector<fs::path> roots;
  if (const char* home = std::getenv("TESSERA_HOME")) roots.emplace_back(home);
  std::error_code failed;
  const fs::path executable = fs::read_symlink("/proc/self/exe", failed);
  for (const fs::path& file : {failed ? fs::path() : executable, own_file()})
    if (file.has_parent_path()) roots.push_back(file.parent_path().parent_path() / "share/tessera");
  roots.emplace_back(TESSERA_SOURCE_DIR);

  std::string looked;
  for (const fs::path& root : roots) {
    const fs::path path = root / relative;
    if (fs::exists(path)) return path.string();
    looked += "\n  " + path.string();
  }
  throw Unsupported(fmt::format("{} is missing; looked for it at{}", relative, looked));
}

}  // namespace tessera
