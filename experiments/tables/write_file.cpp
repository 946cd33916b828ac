#include "experiments/tables/write_file.hpp"

#include <filesystem>
#include <fstream>

#include "formats/base/check.hpp"
#include "formats/io/new_file.hpp"

namespace tessera {

void make_folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code failed;
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  require(!failed, "{}: the folder cannot be made: {}", folder.string(), failed.message());
}

void write_file(const std::string& path, const std::string& text) {
  write_file(path, [&](std::ostream& file) { file << text; });
}

void write_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  make_folder_of(path);
  NewFile target(path);
  std::ofstream file(target.path(), std::ios::binary);
  write(file);
  file.close();
  require(file.good(), "{}: cannot write", path);
  target.keep();
}

}  // namespace tessera
