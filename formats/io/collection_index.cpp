#include "formats/io/collection_index.hpp"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "formats/base/check.hpp"
#include "formats/io/cache.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFields = 12;  // a later revision adds the entries of the pattern

std::string own_index() {
  const char* value = std::getenv("TESSERA_COLLECTION_INDEX");
  return value == nullptr ? "" : value;
}

/// The fields of a line of CSV; quotation marks keep a comma in its field.
std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else if (c != '\r')
      fields.back() += c;
  }
  return fields;
}

/// The fields of one line, read by type.
class Line {
 public:
  Line(std::string place, std::string_view text)
      : place_(std::move(place)), fields_(fields_of(text)) {
    require(fields_.size() >= kFields, "{}: {} fields in place of {} or more", place_,
            fields_.size(), kFields);
  }

  const std::string& text(std::size_t field) const {
    require(!fields_[field].empty(), "{}: field {} is empty", place_, field + 1);
    return fields_[field];
  }
  template <class T>
  T number(std::size_t field) const {
    const std::string& digits = fields_[field];
    T value = {};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    require(error == std::errc() && end == digits.data() + digits.size() && value >= 0,
            "{}: field {} is '{}', not a number of at least 0", place_, field + 1, digits);
    return value;
  }
  bool flag(std::size_t field) const { return number<std::int64_t>(field) != 0; }

 private:
  std::string place_;
  std::vector<std::string> fields_;
};

CollectionMatrix matrix_of(const Line& line) {
  return {.group = line.text(0),
          .name = line.text(1),
          .rows = line.number<std::int64_t>(2),
          .cols = line.number<std::int64_t>(3),
          .nnz = line.number<std::int64_t>(4),
          .real = line.flag(5),
          .binary = line.flag(6),
          .mesh = line.flag(7),
          .posdef = line.flag(8),
          .pattern_symmetry = line.number<double>(9),
          .numerical_symmetry = line.number<double>(10),
          .kind = line.text(11)};
}

CollectionIndex read_index(const std::string& path) {
  std::ifstream file(path);
  require(file.is_open(), "{}: the index of the collection cannot be read", path);
  CollectionIndex index{.path = path, .revised = {}, .matrices = {}};
  std::string line;
  std::int64_t announced = 0;
  std::getline(file, line);
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), announced);
  require(error == std::errc() && announced > 0,
          "{}:1: the index of the collection begins with the number of its matrices, not '{}'",
          path, line.substr(0, 40));
  std::getline(file, index.revised);
  if (index.revised.ends_with('\r')) index.revised.pop_back();
  for (std::int64_t number = 3; std::getline(file, line); ++number)
    if (!line.empty() && line != "\r")
      index.matrices.push_back(matrix_of({fmt::format("{}:{}", path, number), line}));
  require(std::ssize(index.matrices) == announced,
          "{}: {} matrices, but its first line says {}: the file is not whole; delete it and fetch "
          "it again",
          path, index.matrices.size(), announced);
  return index;
}

}  // namespace

std::string fetched_index_path() {
  const std::string cache = cache_folder();
  return cache.empty() ? "" : (fs::path(cache) / "collections" / "ssstats.csv").string();
}

std::optional<CollectionIndex> collection_index() {
  if (const std::string own = own_index(); !own.empty()) {
    require(fs::is_regular_file(own), "TESSERA_COLLECTION_INDEX: {}: there is no such file", own);
    return read_index(own);
  }
  const std::string path = fetched_index_path();
  if (path.empty() || !fs::is_regular_file(path)) return std::nullopt;
  return read_index(path);
}

}  // namespace tessera
