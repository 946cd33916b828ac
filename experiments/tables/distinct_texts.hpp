// The different texts of a column, numbered, in a table of a million rows.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "experiments/tables/rows.hpp"

namespace tessera {

/// Numbers the texts that cell_text() gives for a column. Many rows share a value, which is made a
/// text of once; so the rows have to stay as they are while this is used.
class DistinctTexts {
 public:
  /// "" stands for no column, of which every row has the text "".
  explicit DistinctTexts(const std::string& column) : column_(column_name(column)) {}

  /// The number of the row's text: its place in texts().
  std::uint32_t number(const Row& row);

  /// In the order of the first row with each.
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  const std::string& column_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::unordered_map<const Json*, std::uint32_t> of_values_;
  const Json* last_ = nullptr;  // the value of the last row, and its number
  std::uint32_t last_number_ = 0;
};

}  // namespace tessera
