#include "experiments/config/table_reader.hpp"

#include <algorithm>
#include <stdexcept>

namespace tessera {
namespace {

[[noreturn]] void ill_typed(const Node& node, std::string_view what, const char* expected) {
  throw Error(fmt::format("{}: {} takes {}, not {}", node.place, what, expected, node.describe()));
}

const std::string& text_of(const Node& node, std::string_view what) {
  if (!node.scalar.is_string()) ill_typed(node, what, "text");
  return node.scalar.get_ref<const std::string&>();
}

double number_of(const Node& node, std::string_view what) {
  if (!node.scalar.is_number()) ill_typed(node, what, "a number");
  return node.scalar.get<double>();
}

const std::vector<Node>& list_of(const Node& node, std::string_view what) {
  if (node.kind != Node::Kind::kArray) ill_typed(node, what, "a list");
  return node.items;
}

}  // namespace

TableReader::TableReader(const Node& node, const std::string& name)
    : node_(node), table_(config_table(name)) {
  if (node.kind != Node::Kind::kTable) ill_typed(node, name, "a table");
}

const Node* TableReader::find(const std::string& key) {
  config_key(table_, key);
  asked_.push_back(key);
  return node_.find(key);
}

/// The same, and holds what the code is about to do against what is documented.
const Node* TableReader::find(const std::string& key, KeyType type, const Json& fallback) {
  const ConfigKey& documented = config_key(table_, key);
  const std::string text = documented.fallback;
  const bool alike =
      text.starts_with('(') || text == "required" ||
      (text.empty() ? fallback.empty() || fallback.dump() == R"("")" : fallback.dump() == text);
  if (documented.type != type || !alike)
    throw std::logic_error("the type or the default of " + key + " in " + table_.name +
                           " is not the documented one: " + fallback.dump());
  return find(key);
}

const Node& TableReader::required(const std::string& key, KeyType type) {
  const Node* node = find(key, type, nullptr);
  require(node != nullptr, "{}: {} needs '{}'", place(), table_.name, key);
  return *node;
}

std::string TableReader::text(const std::string& key) {
  const Node& node = required(key, KeyType::kText);
  std::string value;
  read(key, value);
  require(!value.empty(), "{}: {} is empty", node.place, key);
  return value;
}

std::vector<std::string> TableReader::texts(const std::string& key) {
  const Node& node = required(key, KeyType::kTexts);
  require(!list_of(node, key).empty(), "{}: {} is empty", node.place, key);
  std::vector<std::string> texts;
  read(key, texts);
  return texts;
}

void TableReader::read(const std::string& key, std::string& value) {
  const Node* node = find(key, KeyType::kText, value);
  if (node == nullptr) return;
  value = text_of(*node, key);
  const auto choices = config_key(table_, key).choices;
  const std::vector<std::string> known =
      choices == nullptr ? std::vector<std::string>{} : choices();
  require(known.empty() || std::ranges::find(known, value) != known.end(), "{}: {}", node->place,
          unknown_name_message("value for " + key, value, known));
}

void TableReader::read(const std::string& key, bool& value) {
  const Node* node = find(key, KeyType::kFlag, value);
  if (node == nullptr) return;
  if (!node->scalar.is_boolean()) ill_typed(*node, key, "true or false");
  value = node->scalar.get<bool>();
}

void TableReader::read(const std::string& key, double& value) {
  if (const Node* node = find(key, KeyType::kNumber, value)) value = number_of(*node, key);
}

void TableReader::read(const std::string& key, std::int64_t& value) {
  const Node* node = find(key, KeyType::kInteger, value);
  if (node == nullptr) return;
  if (!node->scalar.is_number_integer()) ill_typed(*node, key, "an integer");
  value = node->scalar.get<std::int64_t>();
}

void TableReader::read(const std::string& key, std::vector<std::string>& value) {
  const Node* node = find(key, KeyType::kTexts, value);
  if (node == nullptr) return;
  value.clear();
  for (const Node& item : list_of(*node, key)) value.push_back(text_of(item, key));
}

void TableReader::read(const std::string& key, std::vector<double>& value) {
  const Node* node = find(key, KeyType::kNumbers, value);
  if (node == nullptr) return;
  value.clear();
  for (const Node& item : list_of(*node, key)) value.push_back(number_of(item, key));
}

void TableReader::refuse_unknown() const {
  std::vector<std::string> known;
  for (const ConfigKey& key : table_.keys) {
    known.push_back(key.name);
    if (std::ranges::find(asked_, key.name) == asked_.end())
      throw std::logic_error(std::string("no one reads the key ") + key.name + " of " +
                             table_.name);
  }
  for (const Node& member : node_.items)
    require(std::ranges::find(known, member.key) != known.end(), "{}: {}", member.key_place,
            unknown_name_message("key in " + std::string(table_.name), member.key, known));
}

}  // namespace tessera
