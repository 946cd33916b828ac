// Reads one table of a config key by key, checks types, and refuses the keys that remain.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/document.hpp"
#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {

class TableReader {
 public:
  /// `name` as a person knows the table: "[measure]". Throws an Error when `node` is no table.
  TableReader(const Node& node, std::string name);

  /// The member, or nullptr; either way the key is a known one from now on.
  const Node* find(const std::string& key);

  // The required ones throw when the key is missing; the others leave `value` alone.
  std::string text(const std::string& key);
  std::string optional_text(const std::string& key);       // "" when missing
  std::vector<std::string> texts(const std::string& key);  // not empty
  void read(const std::string& key, std::string& value);
  void read(const std::string& key, bool& value);
  void read(const std::string& key, double& value);
  void read(const std::string& key, std::int64_t& value);
  void read(const std::string& key, std::vector<std::string>& value);
  void read(const std::string& key, std::vector<double>& value);
  /// Text that has to be one of `choices`.
  void read_choice(const std::string& key, std::string& value,
                   const std::vector<std::string>& choices);

  /// Throws an Error with the nearest known key for a key that was not read.
  void refuse_unknown() const;

  const SourceLocation& place() const { return node_.place; }

 private:
  const Node& required(const std::string& key);

  const Node& node_;
  std::string name_;
  std::vector<std::string> known_;
};

}  // namespace tessera
