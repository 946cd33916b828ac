#include "experiments/config/matrix_set.hpp"

#include <algorithm>
#include <filesystem>

#include "experiments/config/table_reader.hpp"
#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {

namespace fs = std::filesystem;

MatrixSets::MatrixSets(const std::vector<Node>& included, std::vector<std::string> folders,
                       bool stand_ins)
    : folders_(std::move(folders)), stand_ins_(stand_ins) {
  for (const Node& set : included) add(set);
}

void MatrixSets::add(const Node& set) {
  TableReader reader(set, "[set]");
  const std::string name = reader.text("name");
  std::string title;
  reader.read("title", title);
  reader.texts("matrix");
  std::vector<std::string> stand_in;
  reader.read("stand_in", stand_in);
  reader.refuse_unknown();
  const auto [present, is_new] = sets_.try_emplace(name, set);
  require(is_new || present->second.to_json() == set.to_json(),
          "{}: set '{}' is already defined at {}", set.place, name, present->second.place);
}

std::vector<std::string> MatrixSets::known() const {
  std::vector<std::string> names;
  for (const auto& [name, set] : sets_) names.push_back(name);
  for (const std::string& folder : folders_) {
    if (!fs::is_directory(folder)) continue;
    for (const auto& file : fs::directory_iterator(folder))
      if (file.path().extension() == ".toml") names.push_back(file.path().stem().string());
  }
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

const Node& MatrixSets::find(const std::string& name, const SourceLocation& place) {
  for (auto folder = folders_.begin(); !sets_.contains(name); ++folder) {
    require(folder != folders_.end(), "{}: {}", place,
            unknown_name_message("set of matrices", name, known()));
    const std::string path = (fs::path(*folder) / (name + ".toml")).string();
    if (name.find('/') != std::string::npos || !fs::is_regular_file(path)) continue;
    for (const Node& set : load_document(path).sets) add(set);
    require(sets_.contains(name), "{}: it holds no [set] with name = \"{}\"", path, name);
  }
  return sets_.at(name);
}

void MatrixSets::expand_into(const Setting& value, std::vector<std::string>& chain,
                             std::vector<Setting>& matrices) {
  const std::string text = value.value.is_string() ? value.value.get<std::string>() : "";
  if (!text.starts_with('@')) {
    matrices.push_back(value);
    return;
  }
  const std::string name = text.substr(1);
  if (std::ranges::find(chain, name) != chain.end()) {
    std::string names;
    for (const std::string& link : chain) names += "@" + link + " -> ";
    throw Error(
        fmt::format("{}: a set of matrices contains itself: {}@{}", value.place, names, name));
  }
  const Node& set = find(name, value.place);
  const Node* stand_in = stand_ins_ ? set.find("stand_in") : nullptr;
  const Node& members = stand_in == nullptr ? *set.find("matrix") : *stand_in;
  used_[name] = members.to_json();
  chain.push_back(name);
  for (const Node& item : members.items) expand_into({item.scalar, item.place}, chain, matrices);
  chain.pop_back();
}

std::vector<Setting> MatrixSets::expand(const Setting& value) {
  std::vector<std::string> chain;
  std::vector<Setting> matrices;
  expand_into(value, chain, matrices);
  return matrices;
}

}  // namespace tessera
