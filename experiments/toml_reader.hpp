// Typed access to a TOML table: what is missing, ill-typed or unknown is an error with its place.
#pragma once

#include <toml++/toml.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config.hpp"

namespace tessera {

/// "file:line:column"
Place place_of(const toml::node& node);
Place place_of(const toml::key& key);

/// A scalar as JSON. Throws an Error for dates, tables and lists.
Setting scalar_setting(const toml::node& node);

/// Reads the keys of one table; done() complains about those nobody asked for.
class TomlReader {
 public:
  /// `what` names the table in messages: "[experiment]".
  TomlReader(const toml::table& table, std::string what) : table_(table), what_(std::move(what)) {}

  bool has(std::string_view key) const { return table_.contains(key); }
  Place place() const { return place_of(table_); }

  std::string text(std::string_view key);  // required
  std::string text(std::string_view key, std::string fallback);
  std::string choice(std::string_view key, const std::vector<std::string>& choices,
                     std::string fallback);
  double number(std::string_view key, double fallback);
  std::int64_t integer(std::string_view key, std::int64_t fallback, std::int64_t least);
  bool flag(std::string_view key, bool fallback);
  std::vector<std::string> texts(std::string_view key);
  std::vector<double> numbers(std::string_view key);
  Settings settings(std::string_view key);
  std::vector<const toml::table*> tables(std::string_view key);  // [[key]]; none when absent
  const toml::table* table(std::string_view key);                // nullptr when absent

  void done() const;

 private:
  const toml::node* find(std::string_view key);
  [[noreturn]] void fail(const toml::node& node, std::string_view key,
                         std::string_view expected) const;

  const toml::table& table_;
  std::string what_;
  std::vector<std::string> asked_;
};

/// All scalars of a table; a nested table { name = "x", k = v } becomes key = "x", "key.k" = v.
Settings settings_of(const toml::table& table, const std::set<std::string>& except = {});

}  // namespace tessera
