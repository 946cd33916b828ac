#include "formats/base/shipped_files.hpp"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "formats/base/check.hpp"

namespace tessera {

std::string shipped_path(std::string_view relative) {
  namespace fs = std::filesystem;
  std::vector<fs::path> roots;
  if (const char* home = std::getenv("TESSERA_HOME")) roots.emplace_back(home);
  std::error_code failed;
  const fs::path executable = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) roots.push_back(executable.parent_path().parent_path() / "share/tessera");
  roots.emplace_back(TESSERA_SOURCE_DIR);

  std::string looked;
  for (const fs::path& root : roots) {
    const fs::path path = root / relative;
    if (fs::exists(path)) return path.string();
    looked += "\n  " + path.string();
  }
  throw Error(fmt::format("{} is missing; looked for it at{}", relative, looked));
}

}  // namespace tessera
