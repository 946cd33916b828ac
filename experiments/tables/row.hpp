// A row of a table: columns and their values. A million of them fit into memory, since the names of
// columns are held once and rows may share a value: a text in a tree of its own takes ten times the
// memory.
#pragma once

#include <compare>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/points/point.hpp"

namespace tessera {

/// The one copy of a column's name, which is never freed. Any thread may ask for it.
const std::string& column_name(std::string_view name);

/// Column -> text, number or bool, in ascending order of the names; a column without a value is
/// absent. Its interface is the part of std::map that is needed.
class Row {
 public:
  using Value = std::shared_ptr<Json>;

  /// As a pair of a map.
  struct Entry {
    const std::string& first;
    const Json& second;
  };

  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = Entry;

    /// What -> goes through: an Entry is made when it is asked for.
    struct Arrow {
      Entry entry;
      const Entry* operator->() const { return &entry; }
    };

    Entry operator*() const { return {*at_->name, *at_->value}; }
    Arrow operator->() const { return {**this}; }
    Iterator& operator++() { return ++at_, *this; }
    Iterator operator++(int) { return Iterator(at_++); }
    bool operator==(const Iterator&) const = default;

   private:
    friend class Row;
    struct Cell {
      const std::string* name;  // of column_name()
      Value value;
    };
    using At = std::vector<Cell>::const_iterator;
    explicit Iterator(At at) : at_(at) {}

    At at_;
  };

  Row() = default;
  Row(std::initializer_list<std::pair<std::string_view, Json>> cells);

  Iterator begin() const { return Iterator(cells_.begin()); }
  Iterator end() const { return Iterator(cells_.end()); }
  Iterator find(std::string_view column) const;
  /// The same for a name from column_name(), in less time.
  Iterator find_name(const std::string& name) const;
  bool contains(std::string_view column) const { return find(column) != end(); }

  /// Throws std::out_of_range without a value.
  const Json& at(std::string_view column) const;

  /// The value of this row alone, to be changed; null where there was none.
  Json& operator[](std::string_view column);

  /// Sets a value that other rows may share. `name` is from column_name().
  void share(const std::string& name, Value value);

  void erase(std::string_view column);
  void clear() { cells_.clear(); }
  void reserve(std::size_t columns) { cells_.reserve(columns); }

  bool operator==(const Row& other) const;

 private:
  using Cell = Iterator::Cell;

  std::vector<Cell>::iterator place_of(std::string_view column);

  std::vector<Cell> cells_;
};

/// An object of the columns: a Row becomes a Json where one is asked for.
void to_json(Json& json, const Row& row);
/// And back.
void from_json(const Json& json, Row& row);

}  // namespace tessera
