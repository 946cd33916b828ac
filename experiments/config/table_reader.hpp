// Reads one table of a config key by key, checks types, and refuses the keys that remain. What it
// may read stands in keys.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/document.hpp"
#include "experiments/config/keys.hpp"
#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {

class TableReader {
 public:
  /// `name` as a person knows the table, and keys.hpp has it: "[measure]". Throws an Error when
  /// `node` is no table.
  TableReader(const Node& node, const std::string& name);

  /// The member, or nullptr.
  const Node* find(const std::string& key);

  // The required ones throw when the key is missing; the others leave `value` alone, which is the
  // default that keys.hpp gives.
  std::string text(const std::string& key);
  std::vector<std::string> texts(const std::string& key);  // not empty
  void read(const std::string& key, std::string& value);
  void read(const std::string& key, bool& value);
  void read(const std::string& key, double& value);
  void read(const std::string& key, std::int64_t& value);
  void read(const std::string& key, std::vector<std::string>& value);
  void read(const std::string& key, std::vector<double>& value);

  /// After the last key: throws an Error with the nearest known key for one that does not belong to
  /// the table, and std::logic_error for a documented one that was not asked for.
  void refuse_unknown() const;

  const SourceLocation& place() const { return node_.place; }

 private:
  const Node& required(const std::string& key, KeyType type);
  const Node* find(const std::string& key, KeyType type, const Json& fallback);

  const Node& node_;
  const ConfigTable& table_;
  std::vector<std::string> asked_;
};

}  // namespace tessera
