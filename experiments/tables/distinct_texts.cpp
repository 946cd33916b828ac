#include "experiments/tables/distinct_texts.hpp"

namespace tessera {

std::uint32_t DistinctTexts::number(const Row& row) {
  const auto found = column_.empty() ? row.end() : row.find_name(column_);
  const Json* value = found == row.end() ? nullptr : &found->second;
  if (value == last_ && !texts_.empty()) return last_number_;
  const auto [of_value, is_unknown] = of_values_.try_emplace(value, 0);
  if (is_unknown) {
    std::string text = value == nullptr ? "" : cell_text(row, column_);
    const auto [numbered, is_new] =
        numbers_.try_emplace(std::move(text), static_cast<std::uint32_t>(texts_.size()));
    if (is_new) texts_.push_back(numbered->first);
    of_value->second = numbered->second;
  }
  last_ = value;
  return last_number_ = of_value->second;
}

}  // namespace tessera
