#include "experiments/tables/row.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <stdexcept>

namespace tessera {

const std::string& column_name(std::string_view name) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> names;
  const std::lock_guard lock(mutex);
  const auto found = names.find(name);
  return found != names.end() ? *found : *names.emplace(name).first;
}

Row::Row(std::initializer_list<std::pair<std::string_view, Json>> cells) {
  for (const auto& [column, value] : cells)
    if (!contains(column)) (*this)[column] = value;
}

Row::Iterator Row::find(std::string_view column) const {
  const auto found =
      std::ranges::find_if(cells_, [&](const Cell& cell) { return *cell.name == column; });
  return Iterator(found);
}

Row::Iterator Row::find_name(const std::string& name) const {
  return Iterator(
      std::ranges::find_if(cells_, [&](const Cell& cell) { return cell.name == &name; }));
}

const Json& Row::at(std::string_view column) const {
  const Iterator found = find(column);
  if (found == end()) throw std::out_of_range("a row without '" + std::string(column) + "'");
  return found->second;
}

std::vector<Row::Cell>::iterator Row::place_of(std::string_view column) {
  return std::ranges::lower_bound(cells_, column, {},
                                  [](const Cell& cell) { return std::string_view(*cell.name); });
}

Json& Row::operator[](std::string_view column) {
  auto place = place_of(column);
  if (place == cells_.end() || *place->name != column)
    place = cells_.insert(place, {&column_name(column), std::make_shared<Json>()});
  if (place->value.use_count() > 1) place->value = std::make_shared<Json>(*place->value);
  return *place->value;
}

void Row::share(const std::string& name, Value value) {
  if (cells_.empty() || *cells_.back().name < name) {
    cells_.push_back({&name, std::move(value)});
    return;
  }
  auto place = place_of(name);
  if (place != cells_.end() && place->name == &name)
    place->value = std::move(value);
  else
    cells_.insert(place, {&name, std::move(value)});
}

void Row::erase(std::string_view column) {
  const auto place = place_of(column);
  if (place != cells_.end() && *place->name == column) cells_.erase(place);
}

bool Row::operator==(const Row& other) const {
  return std::ranges::equal(cells_, other.cells_, [](const Cell& a, const Cell& b) {
    return a.name == b.name && *a.value == *b.value;
  });
}

void to_json(Json& json, const Row& row) {
  json = Json::object();
  for (const auto& [column, value] : row) json[column] = value;
}

void from_json(const Json& json, Row& row) {
  row.clear();
  for (const auto& [column, value] : json.items()) row[column] = value;
}

}  // namespace tessera
