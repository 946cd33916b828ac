#include "formats/io/matrix_file.hpp"

#include "formats/base/registry.hpp"

namespace tessera {
namespace {

std::unique_ptr<MatrixFile> format_of(std::string_view path) {
  for (const auto& [name, entry] : Registry<MatrixFile>::instance().entries()) {
    std::unique_ptr<MatrixFile> format = entry.make(Params());
    for (const std::string& suffix : format->suffixes())
      if (path.ends_with(suffix)) return format;
  }
  return nullptr;
}

}  // namespace

CsrMatrix read_matrix(const std::string& path) {
  const std::unique_ptr<MatrixFile> format = format_of(path);
  require(format != nullptr, "{}: no known format has this ending", path);
  return format->read(path);
}

bool is_matrix_file_name(std::string_view path) { return format_of(path) != nullptr; }

}  // namespace tessera
