#include "experiments/toml_reader.hpp"

#include <algorithm>

#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {
namespace {

Place place_of(const toml::source_region& region) {
  return fmt::format("{}:{}:{}", region.path ? *region.path : std::string("--set"),
                     region.begin.line, region.begin.column);
}

}  // namespace

Place place_of(const toml::node& node) { return place_of(node.source()); }
Place place_of(const toml::key& key) { return place_of(key.source()); }

Setting scalar_setting(const toml::node& node) {
  Setting setting{nullptr, place_of(node)};
  if (const auto* text = node.as_string()) setting.value = text->get();
  if (const auto* integer = node.as_integer()) setting.value = integer->get();
  if (const auto* number = node.as_floating_point()) setting.value = number->get();
  if (const auto* flag = node.as_boolean()) setting.value = flag->get();
  require(!setting.value.is_null(), "{}: expected text, a number or true/false", setting.place);
  return setting;
}

const toml::node* TomlReader::find(std::string_view key) {
  asked_.emplace_back(key);
  return table_.get(key);
}

void TomlReader::fail(const toml::node& node, std::string_view key,
                      std::string_view expected) const {
  throw Error(fmt::format("{}: '{}' of {} has to be {}", place_of(node), key, what_, expected));
}

std::string TomlReader::text(std::string_view key) {
  const toml::node* node = find(key);
  require(node != nullptr, "{}: {} needs '{}'", place(), what_, key);
  const auto value = node->value_exact<std::string>();
  if (!value || value->empty()) fail(*node, key, "text");
  return *value;
}

std::string TomlReader::text(std::string_view key, std::string fallback) {
  if (!has(key)) {
    asked_.emplace_back(key);
    return fallback;
  }
  return text(key);
}

std::string TomlReader::choice(std::string_view key, const std::vector<std::string>& choices,
                               std::string fallback) {
  const std::string value = text(key, std::move(fallback));
  if (const toml::node* node = table_.get(key))
    require(std::ranges::find(choices, value) != choices.end(), "{}: {}", place_of(*node),
            unknown_name_message(key, value, choices));
  return value;
}

double TomlReader::number(std::string_view key, double fallback) {
  const toml::node* node = find(key);
  if (node == nullptr) return fallback;
  if (!node->is_number()) fail(*node, key, "a number");
  return *node->value<double>();
}

std::int64_t TomlReader::integer(std::string_view key, std::int64_t fallback, std::int64_t least) {
  const toml::node* node = find(key);
  if (node == nullptr) return fallback;
  const auto value = node->value_exact<std::int64_t>();
  if (!value || *value < least) fail(*node, key, fmt::format("an integer of at least {}", least));
  return *value;
}

bool TomlReader::flag(std::string_view key, bool fallback) {
  const toml::node* node = find(key);
  if (node == nullptr) return fallback;
  const auto value = node->value_exact<bool>();
  if (!value) fail(*node, key, "true or false");
  return *value;
}

std::vector<std::string> TomlReader::texts(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return {};
  if (!node->is_array()) fail(*node, key, "a list of texts");
  std::vector<std::string> values;
  for (const toml::node& element : *node->as_array()) {
    const auto value = element.value_exact<std::string>();
    if (!value) fail(element, key, "a list of texts");
    values.push_back(*value);
  }
  return values;
}

std::vector<double> TomlReader::numbers(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return {};
  if (!node->is_array()) fail(*node, key, "a list of numbers");
  std::vector<double> values;
  for (const toml::node& element : *node->as_array()) {
    if (!element.is_number()) fail(element, key, "a list of numbers");
    values.push_back(*element.value<double>());
  }
  return values;
}

Settings TomlReader::settings(std::string_view key) {
  const toml::table* found = table(key);
  return found == nullptr ? Settings{} : settings_of(*found);
}

std::vector<const toml::table*> TomlReader::tables(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return {};
  if (!node->is_array()) fail(*node, key, "a list of tables");
  std::vector<const toml::table*> found;
  for (const toml::node& element : *node->as_array()) {
    if (!element.is_table()) fail(element, key, "a list of tables");
    found.push_back(element.as_table());
  }
  return found;
}

const toml::table* TomlReader::table(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return nullptr;
  if (!node->is_table()) fail(*node, key, "a table");
  return node->as_table();
}

void TomlReader::done() const {
  for (const auto& [key, node] : table_)
    require(std::ranges::find(asked_, key.str()) != asked_.end(), "{}: {}", place_of(key),
            unknown_name_message(fmt::format("key of {}", what_), key.str(), asked_));
}

Settings settings_of(const toml::table& table, const std::set<std::string>& except) {
  Settings settings;
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (except.contains(name)) continue;
    if (const toml::table* nested = node.as_table()) {
      for (auto& [inner, setting] : settings_of(*nested))
        settings[inner == "name" ? name : name + "." + inner] = std::move(setting);
    } else {
      settings[name] = scalar_setting(node);
    }
  }
  return settings;
}

}  // namespace tessera
