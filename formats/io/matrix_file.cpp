#include "formats/io/matrix_file.hpp"

#include <cctype>
#include <memory>

#include "formats/base/or_out_of_memory.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

std::string lower(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return low;
}

/// The format with the longest suffix that ends the name; none when no format claims it.
std::unique_ptr<MatrixFile> format_of(std::string_view path) {
  const std::string name = lower(path);
  std::unique_ptr<MatrixFile> best;
  std::size_t longest = 0;
  for (const auto& [format_name, entry] : Registry<MatrixFile>::instance().entries()) {
    std::unique_ptr<MatrixFile> format = Registry<MatrixFile>::instance().make(format_name);
    for (const std::string& suffix : format->suffixes()) {
      if (!name.ends_with(suffix) || suffix.size() <= longest) continue;
      longest = suffix.size();
      best = std::move(format);
      break;
    }
  }
  return best;
}

std::unique_ptr<MatrixFile> require_format(const std::string& path) {
  std::unique_ptr<MatrixFile> format = format_of(path);
  if (format) return format;
  std::vector<std::string> known;
  for (const std::string& name : Registry<MatrixFile>::instance().names())
    for (const std::string& suffix : Registry<MatrixFile>::instance().make(name)->suffixes())
      known.push_back(suffix);
  throw Error(fmt::format("{}: no matrix format has this ending; expected one of {}", path,
                          fmt::join(known, ", ")));
}

}  // namespace

CsrMatrix read_matrix(const std::string& path) {
  const std::unique_ptr<MatrixFile> format = require_format(path);
  return or_out_of_memory(
      [&] { return format->read(path); },
      [&] { return fmt::format("{}: this machine has too little memory for the matrix", path); });
}

void write_matrix(const CsrMatrix& matrix, const std::string& path) {
  require_format(path)->write(matrix, path);
}

bool is_matrix_file_name(std::string_view path) { return format_of(path) != nullptr; }

}  // namespace tessera
