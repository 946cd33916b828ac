#include "experiments/config/table_reader.hpp"

#include <algorithm>
#include <utility>

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

TableReader::TableReader(const Node& node, std::string name) : node_(node), name_(std::move(name)) {
  if (node.kind != Node::Kind::kTable) ill_typed(node, name_, "a table");
}

const Node* TableReader::find(const std::string& key) {
  known_.push_back(key);
  return node_.find(key);
}

const Node& TableReader::required(const std::string& key) {
  const Node* node = find(key);
  require(node != nullptr, "{}: {} needs '{}'", place(), name_, key);
  return *node;
}

std::string TableReader::text(const std::string& key) {
  const Node& node = required(key);
  const std::string& text = text_of(node, key);
  require(!text.empty(), "{}: {} is empty", node.place, key);
  return text;
}

std::string TableReader::optional_text(const std::string& key) {
  std::string text;
  read(key, text);
  return text;
}

std::vector<std::string> TableReader::texts(const std::string& key) {
  const Node& node = required(key);
  require(!list_of(node, key).empty(), "{}: {} is empty", node.place, key);
  std::vector<std::string> texts;
  read(key, texts);
  return texts;
}

void TableReader::read(const std::string& key, std::string& value) {
  if (const Node* node = find(key)) value = text_of(*node, key);
}

void TableReader::read(const std::string& key, bool& value) {
  const Node* node = find(key);
  if (node == nullptr) return;
  if (!node->scalar.is_boolean()) ill_typed(*node, key, "true or false");
  value = node->scalar.get<bool>();
}

void TableReader::read(const std::string& key, double& value) {
  if (const Node* node = find(key)) value = number_of(*node, key);
}

void TableReader::read(const std::string& key, std::int64_t& value) {
  const Node* node = find(key);
  if (node == nullptr) return;
  if (!node->scalar.is_number_integer()) ill_typed(*node, key, "an integer");
  value = node->scalar.get<std::int64_t>();
}

void TableReader::read(const std::string& key, std::vector<std::string>& value) {
  const Node* node = find(key);
  if (node == nullptr) return;
  value.clear();
  for (const Node& item : list_of(*node, key)) value.push_back(text_of(item, key));
}

void TableReader::read(const std::string& key, std::vector<double>& value) {
  const Node* node = find(key);
  if (node == nullptr) return;
  value.clear();
  for (const Node& item : list_of(*node, key)) value.push_back(number_of(item, key));
}

void TableReader::read_choice(const std::string& key, std::string& value,
                              const std::vector<std::string>& choices) {
  const Node* node = find(key);
  if (node == nullptr) return;
  value = text_of(*node, key);
  require(std::ranges::find(choices, value) != choices.end(), "{}: {}", node->place,
          unknown_name_message("value for " + key, value, choices));
}

void TableReader::refuse_unknown() const {
  for (const Node& member : node_.items)
    require(std::ranges::find(known_, member.key) != known_.end(), "{}: {}", member.key_place,
            unknown_name_message("key in " + name_, member.key, known_));
}

}  // namespace tessera
