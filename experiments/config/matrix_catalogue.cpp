#include "experiments/config/matrix_catalogue.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "experiments/config/matrix_set.hpp"
#include "experiments/config/table_reader.hpp"
#include "formats/base/shipped_files.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSets = "experiments/configs/sets";

/// Matrix -> text. The names of matrices are no keys that could be documented.
std::map<std::string, std::string> read_texts(const Node& table, const std::string& name) {
  const TableReader reader(table, name);
  std::map<std::string, std::string> texts;
  for (const Node& member : table.items) {
    require(member.scalar.is_string() && !member.scalar.get_ref<const std::string&>().empty(),
            "{}: {} takes text, not {}", member.place, member.key, member.describe());
    texts[member.key] = member.scalar.get<std::string>();
  }
  return texts;
}

/// [sha256]: of matrices that [fetch] names. Returns them by their collection's name.
std::map<std::string, std::string> read_checksums(const Node& table,
                                                  const std::map<std::string, std::string>& fetch) {
  std::map<std::string, std::string> checksums;
  for (const auto& [matrix, digits] : read_texts(table, "[sha256]")) {
    const std::string& place = table.find(matrix)->place;
    const auto found = fetch.find(matrix);
    require(found != fetch.end(), "{}: [fetch] has no '{}'", place, matrix);
    require(digits.size() == 64 && digits.find_first_not_of("0123456789abcdef") == digits.npos,
            "{}: '{}' is no SHA-256: expected 64 hexadecimal digits in lower case", place, digits);
    checksums[found->second] = digits;
  }
  return checksums;
}

/// The matrix inside shuffle(of=...), at any depth, and the first of "A or B"; otherwise the name.
std::string unshuffled(std::string name) {
  name.resize(std::min(name.find(" or "), name.size()));
  constexpr std::string_view kBegin = "shuffle(of=";
  while (name.starts_with(kBegin) && name.ends_with(')')) {
    name = name.substr(kBegin.size(), name.size() - kBegin.size() - 1);
    const std::size_t comma = name.find(',');
    if (name.find('(') > comma) name.resize(comma);
  }
  return name;
}

}  // namespace

MatrixCatalogue matrix_catalogue() {
  const Document document =
      load_document(shipped_path("experiments/configs/catalogue/matrices.toml"));
  TableReader root(document.root, "the catalogue");
  MatrixCatalogue all;
  if (const Node* table = root.find("fetch")) all.fetch = read_texts(*table, "[fetch]");
  if (const Node* table = root.find("elsewhere")) all.elsewhere = read_texts(*table, "[elsewhere]");
  if (const Node* table = root.find("sha256")) all.sha256 = read_checksums(*table, all.fetch);
  root.find("schema");
  root.refuse_unknown();
  return all;
}

std::vector<std::string> shipped_matrix_sets() {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(shipped_path(kSets)))
    if (file.path().extension() == ".toml") names.push_back(file.path().stem().string());
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> matrices_of(const std::string& name_or_set,
                                     std::vector<CountedSet>& counted) {
  if (!name_or_set.starts_with('@')) return {name_or_set};
  MatrixSets sets({}, {"sets", shipped_path(kSets)}, false);
  std::vector<std::string> names;
  for (const Setting& matrix : sets.expand({name_or_set, "the command line"}))
    names.push_back(unshuffled(matrix.value.get<std::string>()));
  counted.insert(counted.end(), sets.counted().begin(), sets.counted().end());
  return names;
}

}  // namespace tessera
