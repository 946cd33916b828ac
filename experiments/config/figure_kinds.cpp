#include "experiments/config/figure_kinds.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "formats/base/check.hpp"
#include "formats/base/shipped_files.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

bool draws_figures(const fs::path& script) {
  std::ifstream file(script);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("KIND = Kind(")) return true;
  return false;
}

}  // namespace

std::vector<std::string> figure_kinds() {
  fs::path folder;
  try {
    folder = shipped_path("notebooks");
  } catch (const Error&) {
    return {};
  }
  std::vector<std::string> kinds;
  for (const auto& file : fs::directory_iterator(folder))
    if (file.path().extension() == ".py" && draws_figures(file.path()))
      kinds.push_back(file.path().stem().string());
  std::ranges::sort(kinds);
  return kinds;
}

}  // namespace tessera
