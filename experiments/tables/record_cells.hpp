// The columns of a record as JSON text: what a row of a table holds, before anything is worked out
// of several rows. Made without a tree of values, for files of a million records.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "experiments/points/point.hpp"
#include "experiments/records/json_line.hpp"

namespace tessera {

/// One value: a column, and JSON text, never null.
struct RecordCell {
  std::uint32_t column = 0;  // place in RecordCells::columns()
  JsonLine::Kind kind = JsonLine::Kind::kNull;
  std::string_view text = {};
};

/// Takes one record after the other apart, and remembers what many records have in common.
class RecordCells {
 public:
  /// With `wanted`, cells of other columns may be left out. It has to outlive this.
  explicit RecordCells(const std::set<std::string>* wanted = nullptr);

  /// Names of all columns seen so far; a column keeps its place.
  const std::vector<std::string>& columns() const { return columns_; }

  /// The cells of a record: each column at most once. `matrix` is its name in tables, `environment`
  /// its env record or null. The cells hold until the next call, as long as the record's text does.
  const std::vector<RecordCell>& read(const std::string& matrix, const JsonLine& record,
                                      const Json* environment);

 private:
  using Kind = JsonLine::Kind;
  using Value = JsonLine::Value;

  /// What a key of a record, or of an object in it, stands for.
  struct Key {
    std::vector<std::uint32_t> columns = {};
    std::map<std::string, Key, std::less<>> inside = {};
  };

  /// A cell that many records share.
  struct SharedCell {
    std::uint32_t column = 0;
    Kind kind = Kind::kNull;
    std::string text = {};
  };
  using SharedCells = std::vector<SharedCell>;

  /// Cells by the text that they are made of.
  struct Known {
    std::unordered_map<std::string, SharedCells> cells = {};
    const std::pair<const std::string, SharedCells>* last = nullptr;  // that was asked for
  };

  /// A value of a record, by its place in JsonLine::values(); 0, that of the record, for none.
  using Place = std::uint32_t;
  using PlacedCells = std::vector<std::pair<std::uint32_t, Place>>;  // column, its value

  /// Where records of one JsonLine::pattern() have what cells are made of.
  struct Places {
    PlacedCells listed;      // the listed columns, and figures under their own names
    PlacedCells parameters;  // "kernel.precision", ... of every stage
    Place status = 0, env_id = 0, params = 0, backend = 0, values = 0, device = 0;
    std::vector<Place> stages;  // of params, one for each that is there
    Place time_us = 0, counted_ns = 0, predicted_us = 0, product_stages = 0;
  };

  std::uint32_t column(std::string_view name);
  std::uint32_t column(std::string_view before, std::string_view name, std::string_view behind);
  RecordCell* find(std::uint32_t column);
  void set(std::uint32_t column, Kind kind, std::string_view text);
  void set(std::uint32_t column, const Value& value) { set(column, value.kind, value.text); }
  void set(std::uint32_t column, const Json& value);
  void set(const SharedCells& cells);
  template <class Make>
  void set_known(Known& known, const std::string& key, const Make& make);
  SharedCell shared(std::string_view name, const Json& value);

  const Places& places_of(const JsonLine& record);
  Places find_places(const JsonLine& record);
  void find_listed(const JsonLine& record, const Value& object, const Key& keys,
                   PlacedCells& cells);
  void find_figures(const JsonLine& record, const Value& part, PlacedCells& cells);
  PlacedCells find_parameters(const JsonLine& record, const Value& params);

  void set(const JsonLine& record, const PlacedCells& cells);
  void set(const JsonLine& record, std::uint32_t column, Place place);
  void add_times(const JsonLine& record, const Places& places);
  void add_sparse_product(const JsonLine& record, const Places& places);
  SharedCells matrix_cells(const std::string& matrix);
  SharedCells choice_cells(const JsonLine& record, const Places& places);
  SharedCells value_cells(const std::string& values);
  SharedCells machine_cells(const Json& environment);

  const bool has_choices_;  // the column "as" is wanted
  std::vector<std::string> columns_;
  std::unordered_map<std::string, std::uint32_t> places_;  // of columns, by name
  Key listed_;                                             // record_columns() by their pointers
  std::unordered_map<std::uint64_t, Places> known_;        // by pattern of records
  Places unnamed_;                                         // of a record without a pattern
  Known matrices_, choices_, values_, machines_;
  std::string name_;  // of a column, or a key of the maps above, while it is put together

  std::vector<RecordCell> cells_;       // of the record
  std::vector<std::uint32_t> cell_of_;  // column -> its place in cells_ and 1; 0 without one
  std::deque<std::string> texts_;       // those of cells that neither it nor others hold

  // Columns; the last members, since what is above names them.
  std::uint32_t origin_, time_us_, counted_us_, device_, peak_bytes_, peak_mb_, stages_;
};

/// The value of a cell.
Json to_json(const RecordCell& cell);

}  // namespace tessera
