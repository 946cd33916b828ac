#include "experiments/tables/record_cells.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>

#include "experiments/points/published_choices.hpp"
#include "experiments/records/columns.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMostPlaces = 1024;  // patterns of records that are remembered
constexpr const char* kStages[] = {"reorder", "format", "kernel", "model"};

/// "shuffle(of=cora, seed=3)" is cora in random order.
std::string base_of(const std::string& matrix, bool& is_shuffled) {
  constexpr std::string_view kShuffle = "shuffle(of=";
  is_shuffled = matrix.starts_with(kShuffle);
  if (!is_shuffled) return matrix;
  std::string base = matrix.substr(kShuffle.size(), matrix.size() - kShuffle.size() - 1);
  for (const char* other : {", seed=", ", sides="}) base = base.substr(0, base.rfind(other));
  return base;
}

JsonLine::Kind kind_of(const Json& value) {
  using Kind = JsonLine::Kind;
  if (value.is_null()) return Kind::kNull;
  if (value.is_boolean()) return Kind::kBool;
  if (value.is_number_integer()) return Kind::kInteger;
  if (value.is_number()) return Kind::kFloat;
  if (value.is_string()) return Kind::kText;
  return value.is_array() ? Kind::kArray : Kind::kObject;
}

/// "copy B" of a stage's name is copy_B in its column's.
std::string word_of(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace

Json to_json(const RecordCell& cell) {
  const char *begin = cell.text.data(), *end = begin + cell.text.size();
  if (cell.kind == JsonLine::Kind::kFloat) {
    double number = 0;
    if (std::from_chars(begin, end, number).ec == std::errc()) return number;
  } else if (cell.kind == JsonLine::Kind::kInteger && *begin != '-') {
    std::uint64_t number = 0;
    if (std::from_chars(begin, end, number).ec == std::errc()) return number;
  } else if (cell.kind == JsonLine::Kind::kText && cell.text.find('\\') == cell.text.npos) {
    return std::string(begin + 1, end - 1);
  }
  return Json::parse(cell.text);
}

RecordCells::RecordCells(const std::set<std::string>* wanted)
    : has_choices_(wanted == nullptr || wanted->contains("as")),
      origin_(column("origin")),
      time_us_(column("time_us")),
      counted_us_(column("counted_us")),
      device_(column("device")),
      peak_bytes_(column("peak_bytes")),
      peak_mb_(column("peak_mb")),
      stages_(column("stages")) {
  for (const Column& listed : record_columns()) {
    if (*listed.pointer == '\0') continue;
    const bool is_used = column(listed.name) == peak_bytes_;  // by peak_mb
    if (wanted != nullptr && !is_used && !wanted->contains(listed.name)) continue;
    Key* key = &listed_;
    for (std::string_view rest = listed.pointer; !rest.empty();) {
      rest.remove_prefix(1);  // a slash
      const std::size_t end = std::min(rest.find('/'), rest.size());
      key = &key->inside[std::string(rest.substr(0, end))];
      rest.remove_prefix(end);
    }
    key->columns.push_back(column(listed.name));
  }
}

std::uint32_t RecordCells::column(std::string_view name) { return column(name, "", ""); }

std::uint32_t RecordCells::column(std::string_view before, std::string_view name,
                                  std::string_view behind) {
  name_.assign(before).append(name).append(behind);
  const auto found = places_.find(name_);
  if (found != places_.end()) return found->second;
  columns_.push_back(name_);
  cell_of_.push_back(0);
  return places_[name_] = static_cast<std::uint32_t>(columns_.size() - 1);
}

RecordCell* RecordCells::find(std::uint32_t column) {
  return cell_of_[column] == 0 ? nullptr : &cells_[cell_of_[column] - 1];
}

void RecordCells::set(std::uint32_t column, Kind kind, std::string_view text) {
  if (cell_of_[column] == 0) {
    cells_.push_back({column, kind, text});
    cell_of_[column] = static_cast<std::uint32_t>(cells_.size());
  } else {
    cells_[cell_of_[column] - 1] = {column, kind, text};
  }
}

void RecordCells::set(std::uint32_t column, const Json& value) {
  set(column, kind_of(value), texts_.emplace_back(value.dump()));
}

void RecordCells::set(const SharedCells& cells) {
  for (const SharedCell& cell : cells) set(cell.column, cell.kind, cell.text);
}

/// Sets the cells of a key, made once. Most records have the key of the one before.
template <class Make>
void RecordCells::set_known(Known& known, const std::string& key, const Make& make) {
  if (known.last == nullptr || known.last->first != key) {
    auto found = known.cells.find(key);
    if (found == known.cells.end()) found = known.cells.emplace(key, make()).first;
    known.last = &*found;
  }
  set(known.last->second);
}

RecordCells::SharedCell RecordCells::shared(std::string_view name, const Json& value) {
  return {column(name), kind_of(value), value.dump()};
}

/// Both the record's keys and the listed ones are in ascending order.
void RecordCells::find_listed(const JsonLine& record, const Value& object, const Key& keys,
                              PlacedCells& cells) {
  const std::vector<Value>& values = record.values();
  auto key = keys.inside.begin();
  for (std::size_t i = &object - values.data() + 1; i < object.end; i = values[i].end) {
    while (key != keys.inside.end() && precedes(key->first, values[i].key)) ++key;
    if (key == keys.inside.end()) return;
    if (key->first != values[i].key) continue;
    for (const std::uint32_t column : key->second.columns)
      cells.push_back({column, static_cast<Place>(i)});
    if (values[i].kind == Kind::kObject) find_listed(record, values[i], key->second, cells);
  }
}

/// The figures of a matrix or of a model under their own names, unless those are taken.
void RecordCells::find_figures(const JsonLine& record, const Value& part, PlacedCells& cells) {
  const std::vector<Value>& values = record.values();
  if (part.kind != Kind::kObject) return;
  for (std::size_t i = &part - values.data() + 1; i < part.end; i = values[i].end) {
    const std::uint32_t name = column(values[i].key);
    if (std::ranges::find(cells, name, &PlacedCells::value_type::first) == cells.end())
      cells.push_back({name, static_cast<Place>(i)});
  }
}

/// "kernel.precision", ... of every stage.
RecordCells::PlacedCells RecordCells::find_parameters(const JsonLine& record, const Value& params) {
  const std::vector<Value>& values = record.values();
  PlacedCells cells;
  for (const char* stage : kStages) {
    const Value* variant = record.find(params, stage);
    if (variant == nullptr || variant->kind != Kind::kObject) continue;
    for (std::size_t i = variant - values.data() + 1; i < variant->end; i = values[i].end)
      if (values[i].key != "name")
        cells.push_back({column(stage, ".", values[i].key), static_cast<Place>(i)});
  }
  return cells;
}

RecordCells::Places RecordCells::find_places(const JsonLine& record) {
  const Value* first = record.values().data();
  const auto place_of = [&](std::initializer_list<std::string_view> path) {
    const Value* value = record.find(path);
    return value == nullptr ? Place{0} : static_cast<Place>(value - first);
  };
  Places places;
  find_listed(record, *first, listed_, places.listed);
  for (const char* part : {"statistics", "analysis"})
    if (const Value* figures = record.find({part})) find_figures(record, *figures, places.listed);
  places.status = place_of({"status"});
  places.env_id = place_of({"env_id"});
  places.params = place_of({"params"});
  if (places.params != 0) places.parameters = find_parameters(record, first[places.params]);
  for (const char* stage : kStages)
    if (const Place place = place_of({"params", stage})) places.stages.push_back(place);
  places.backend = place_of({"params", "backend"});
  places.values = place_of({"params", "values"});
  places.device = place_of({"params", "device"});
  const Place measured = place_of({"time", "median_us"});
  const Place predicted = place_of({"prediction", "time_us"});
  places.time_us = predicted != 0 ? predicted : measured;
  places.counted_ns = place_of({"counters", "gpu__time_duration.sum"});
  places.predicted_us = place_of({"predicted_us"});
  places.product_stages = place_of({"stages"});
  return places;
}

const RecordCells::Places& RecordCells::places_of(const JsonLine& record) {
  if (record.pattern() == 0) return unnamed_ = find_places(record);
  const auto found = known_.find(record.pattern());
  if (found != known_.end()) return found->second;
  if (known_.size() >= kMostPlaces) known_.clear();
  return known_[record.pattern()] = find_places(record);
}

void RecordCells::set(const JsonLine& record, const PlacedCells& cells) {
  const std::vector<Value>& values = record.values();
  for (const auto& [column, place] : cells) set(column, values[place]);
}

void RecordCells::set(const JsonLine& record, std::uint32_t column, Place place) {
  if (place != 0) set(column, record.values()[place]);
}

/// Times that lie at several places of a record.
void RecordCells::add_times(const JsonLine& record, const Places& places) {
  set(record, time_us_, places.time_us);
  // In ns, unlike every other time.
  if (places.counted_ns != 0)
    set(counted_us_, Json(1e-3 * JsonLine::number_of(&record.values()[places.counted_ns])));
}

/// The columns that only sparse products have, beside the listed ones.
void RecordCells::add_sparse_product(const JsonLine& record, const Places& places) {
  const std::vector<Value>& values = record.values();
  if (const Value& predicted = values[places.predicted_us]; places.predicted_us != 0)
    for (std::size_t i = places.predicted_us + 1; i < predicted.end; i = values[i].end)
      set(column("predicted_", values[i].key, "_us"), values[i]);
  if (const RecordCell* peak = find(peak_bytes_))
    set(peak_mb_, Json(1e-6 * to_json(*peak).get<double>()));
  if (places.product_stages == 0) return;
  const Value& stages = values[places.product_stages];
  set(stages_, stages);
  for (std::size_t i = places.product_stages + 1; i < stages.end; i = values[i].end)
    if (const Value* us = record.find(values[i], "us")) {
      const std::string name = JsonLine::text_of(record.find(values[i], "name"));
      set(column("stage_", word_of(name), "_us"), *us);
    }
}

RecordCells::SharedCells RecordCells::matrix_cells(const std::string& matrix) {
  bool is_shuffled = false;
  const std::string base = base_of(matrix, is_shuffled);
  return {shared("matrix", matrix), shared("shuffled", is_shuffled), shared("base", base)};
}

RecordCells::SharedCells RecordCells::choice_cells(const JsonLine& record, const Places& places) {
  Json choices = Json::object();
  for (const Place stage : places.stages) {
    const Value& variant = record.values()[stage];
    choices[std::string(variant.key)] = JsonLine::to_json(variant);
  }
  const std::string as = choices_of(choices);
  return as.empty() ? SharedCells{} : SharedCells{shared("as", as)};
}

RecordCells::SharedCells RecordCells::value_cells(const std::string& values) {
  const Variant family = parse_values(values);
  SharedCells cells{shared("values", family.name)};
  for (const auto& [name, value] : family.params.values())
    cells.push_back(std::visit(
        [&, &key = name](const auto& v) { return shared("values." + key, Json(v)); }, value));
  return cells;
}

/// Where a record comes from. Measured points name the GPU they ran on; the described device of the
/// others takes its place.
RecordCells::SharedCells RecordCells::machine_cells(const Json& environment) {
  SharedCells cells;
  if (environment.contains("gpu"))
    cells.push_back(shared("device", environment["gpu"].value("name", "")));
  if (const auto host = environment.find("host"); host != environment.end())
    cells.push_back(shared("host", host->value("host", "")));
  if (const auto build = environment.find("build"); build != environment.end())
    cells.push_back(shared(
        "commit", build->value("commit", "") + (build->value("dirty", false) ? "+changes" : "")));
  return cells;
}

const std::vector<RecordCell>& RecordCells::read(const std::string& matrix, const JsonLine& record,
                                                 const Json* environment) {
  for (const RecordCell& cell : cells_) cell_of_[cell.column] = 0;
  cells_.clear();
  texts_.clear();
  const Places& places = places_of(record);
  const std::vector<Value>& values = record.values();
  const auto text_at = [&](Place place) {
    return place == 0 ? std::string() : JsonLine::text_of(&values[place]);
  };
  set(record, places.listed);
  const std::string status = text_at(places.status);
  if (RecordCell* origin = find(origin_); origin && status != "ok" && status != "wrong")
    origin->kind = Kind::kNull;  // it has no numbers
  set_known(matrices_, matrix, [&] { return matrix_cells(matrix); });
  if (places.params != 0) {
    set(record, places.parameters);
    if (has_choices_) {
      std::string choices;
      for (const Place stage : places.stages) choices += values[stage].text;
      set_known(choices_, choices, [&] { return choice_cells(record, places); });
    }
    if (text_at(places.backend) != "reorder") {  // of which only the pattern counts
      const std::string family = places.values == 0 ? "auto" : text_at(places.values);
      set_known(values_, family, [&] { return value_cells(family); });
    }
  }
  add_times(record, places);
  if (environment != nullptr)
    set_known(machines_, text_at(places.env_id), [&] { return machine_cells(*environment); });
  set(record, device_, places.device);
  add_sparse_product(record, places);
  for (const RecordCell& cell : cells_)
    if (cell.kind == Kind::kNull) cell_of_[cell.column] = 0;
  std::erase_if(cells_, [](const RecordCell& cell) { return cell.kind == Kind::kNull; });
  return cells_;
}

}  // namespace tessera
