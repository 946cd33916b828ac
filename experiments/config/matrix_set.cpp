#include "experiments/config/matrix_set.hpp"

#include <algorithm>
#include <filesystem>

#include "experiments/config/collection_query.hpp"
#include "experiments/config/table_reader.hpp"
#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// The whole SuiteSparse Matrix Collection has 2,904 matrices.
constexpr std::int64_t kMostMembers = 100'000;
constexpr std::size_t kMostNestedSets = 100;

}  // namespace

MatrixSets::MatrixSets(const std::vector<Node>& included, std::vector<std::string> folders,
                       bool stand_ins)
    : folders_(std::move(folders)), stand_ins_(stand_ins) {
  for (const Node& set : included) add(set);
}

void MatrixSets::add(const Node& set) {
  TableReader reader(set, "[set]");
  const std::string name = reader.text("name");
  std::string title, query, source, beyond;
  std::int64_t count = 0;
  reader.read("title", title);
  reader.read("query", query);
  reader.read("source", source);
  reader.read("count", count);
  reader.read("beyond", beyond);
  std::vector<std::string> matrices, stand_in;
  reader.read("matrix", matrices);
  require(matrices.empty() != query.empty(), "{}: [set] needs 'matrix' or 'query', and not both",
          set.place);
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

/// The list that a query stands for, as if the file had it.
Node MatrixSets::matrices_that_meet(const Node& query, const std::string& name) {
  if (!index_) index_ = collection_index();
  if (!index_)
    throw CollectionIndexAbsent(fmt::format(
        "{}: @{} is a query over the index of the SuiteSparse Matrix Collection, which is not on "
        "this machine: with a network, `tessera matrix fetch @{} --dry-run` downloads it; without "
        "one, set TESSERA_COLLECTION_INDEX to a copy of the collection's ssstats.csv",
        query.place, name, name));
  const std::string condition = query.scalar.get<std::string>();
  Node list{.kind = Node::Kind::kArray, .place = query.place};
  for (const std::string& matrix : select_matrices(*index_, condition, query.place))
    list.items.push_back({.kind = Node::Kind::kScalar, .scalar = matrix, .place = query.place});
  require(!list.items.empty(), "{}: no matrix of {} meets '{}'", query.place, index_->path,
          condition);
  return list;
}

/// Notes what stands for the matrices of a paper that says how many it had.
void MatrixSets::count(const Node& set, const std::string& name, const Node& members) {
  const Node* count = set.find("count");
  if (count == nullptr || std::ranges::find(counted_, name, &CountedSet::name) != counted_.end())
    return;
  const auto text = [&](const char* key) {
    const Node* value = set.find(key);
    return value == nullptr ? std::string() : value->scalar.get<std::string>();
  };
  CountedSet counted{.name = name, .found = fmt::format("{} matrices", members.items.size())};
  if (const std::string query = text("query"); !query.empty())
    counted.found += fmt::format(" of {} in the collection's index (revised {}) meet '{}'",
                                 index_->matrices.size(), index_->revised, query);
  const auto had = count->scalar.get<std::int64_t>();
  counted.found += fmt::format("; the paper had {} ({})", had, text("source"));
  if (const std::string beyond = text("beyond"); !beyond.empty())
    counted.found += fmt::format("; the index cannot tell {}", beyond);
  for (const Node& item : members.items) counted.matrices.push_back(item.scalar.get<std::string>());
  counted_.push_back(std::move(counted));
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
  require(chain.size() < kMostNestedSets, "{}: more than {} sets of matrices within each other",
          value.place, kMostNestedSets);
  const Node& set = find(name, value.place);
  const Node* stand_in = stand_ins_ ? set.find("stand_in") : nullptr;
  const Node* query = set.find("query");
  const Node members = stand_in != nullptr ? *stand_in
                       : query != nullptr  ? matrices_that_meet(*query, name)
                                           : *set.find("matrix");
  members_ += 1 + std::ssize(members.items);
  require(members_ <= kMostMembers, "{}: the sets of matrices have more than {} members in all",
          value.place, kMostMembers);
  if (stand_in == nullptr) count(set, name, members);
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
