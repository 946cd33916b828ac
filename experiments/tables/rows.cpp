#include "experiments/tables/rows.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <span>

#include "experiments/points/published_choices.hpp"
#include "experiments/records/columns.hpp"
#include "experiments/run/analysis.hpp"
#include "experiments/tables/row_steps.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/suggest.hpp"
#include "formats/format.hpp"
#include "formats/statistics/named_statistics.hpp"
#include "formats/values/value_family.hpp"
#include "kernels/sddmm_kernel.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/model.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

/// In ns, unlike every other time.
constexpr const char* kCountedTime = "/counters/gpu__time_duration.sum";

/// The columns "kernel.precision", ... of everything registered.
template <class T>
void add_parameters(const std::string& stage, std::map<std::string, std::string>& columns) {
  for (const auto& [name, entry] : Registry<T>::instance().entries())
    for (const ParamSpec& spec : entry.params)
      columns[stage + "." + spec.name] = fmt::format("{} of {}", spec.name, name);
}

/// The columns that lie at one place of a record.
const std::vector<std::pair<std::string, Json::json_pointer>>& column_pointers() {
  static const auto pointers = [] {
    std::vector<std::pair<std::string, Json::json_pointer>> all;
    for (const Column& column : record_columns())
      if (*column.pointer != '\0') all.emplace_back(column.name, column.pointer);
    return all;
  }();
  return pointers;
}

/// The figures of a packed matrix's pattern.
const std::vector<NamedValue>& statistics_columns() {
  static const std::vector<NamedValue> columns = [] {
    std::vector<NamedValue> all = named_values(statistics(CsrMatrix{}));
    std::ranges::copy(named_values(SquareCount{}), std::back_inserter(all));
    return all;
  }();
  return columns;
}

void add_values(const Json& params, Row& row) {
  if (params.value("backend", "") == "reorder") return;  // only the pattern counts
  const Variant values = parse_values(params.value("values", "auto"));
  row["values"] = values.name;
  for (const auto& [name, value] : values.params.values())
    std::visit([&, &key = name](const auto& v) { row["values." + key] = v; }, value);
}

/// "shuffle(of=cora, seed=3)" is cora in random order.
void add_shuffled(Row& row) {
  constexpr std::string_view kShuffle = "shuffle(of=";
  std::string base = row.at("matrix");
  row["shuffled"] = base.starts_with(kShuffle);
  if (row["shuffled"] == true) {
    base = base.substr(kShuffle.size(), base.size() - kShuffle.size() - 1);
    for (const char* other : {", seed=", ", sides="}) base = base.substr(0, base.rfind(other));
  }
  row["base"] = base;
}

/// "count" becomes the column stage_count_us.
std::string stage_column(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return "stage_" + name + "_us";
}

/// "row_spgemm" becomes the column predicted_row_spgemm_us.
std::string prediction_column(const std::string& kernel) { return "predicted_" + kernel + "_us"; }

/// The columns that only sparse products have, beside those of record_columns().
void add_sparse_product(const Json& record, Row& row) {
  if (const auto found = record.find("predicted_us"); found != record.end())
    for (const auto& [kernel, us] : found->items()) row[prediction_column(kernel)] = us;
  if (const auto peak = row.find("peak_bytes"); peak != row.end())
    row["peak_mb"] = 1e-6 * peak->second.get<double>();
  if (!record.contains("stages")) return;
  row["stages"] = record["stages"];
  for (const Json& stage : record["stages"]) row[stage_column(stage["name"])] = stage["us"];
}

/// Where a record comes from. Measured points name the GPU they ran on; the described device of the
/// others takes its place.
void add_machine(const Json& environment, Row& row) {
  if (environment.contains("gpu")) row["device"] = environment["gpu"].value("name", "");
  if (const auto host = environment.find("host"); host != environment.end())
    row["host"] = host->value("host", "");
  if (const auto build = environment.find("build"); build != environment.end())
    row["commit"] = build->value("commit", "") + (build->value("dirty", false) ? "+changes" : "");
}

Row flat_row(const PlanEntry& entry, const Json& record, const RecordSet& records) {
  Row row;
  for (const auto& [column, pointer] : column_pointers())
    if (record.contains(pointer) && !record[pointer].is_null()) row[column] = record[pointer];
  for (const char* part : {"statistics", "analysis"})
    if (const auto found = record.find(part); found != record.end())
      for (const auto& [name, value] : found->items())
        if (!value.is_null()) row.try_emplace(name, value);
  const std::string status = record.value("status", "");
  if (status != "ok" && status != "wrong") row.erase("origin");  // it has no numbers
  row["matrix"] = entry.matrix;
  add_shuffled(row);
  for (const char* stage : {"reorder", "format", "kernel", "model"}) {
    if (!record["params"].contains(stage)) continue;
    for (const auto& [name, value] : record["params"][stage].items())
      if (name != "name") row[std::string(stage) + "." + name] = value;
  }
  if (const std::string as = choices_of(record["params"]); !as.empty()) row["as"] = as;
  add_values(record["params"], row);
  for (const char* pointer : {"/time/median_us", "/prediction/time_us"})
    if (record.contains(Json::json_pointer(pointer)))
      row["time_us"] = record[Json::json_pointer(pointer)];
  if (const Json::json_pointer ns(kCountedTime); record.contains(ns))
    row["counted_us"] = 1e-3 * record[ns].get<double>();
  const auto env = records.environments.find(record.value("env_id", ""));
  if (env != records.environments.end()) add_machine(env->second, row);
  if (record["params"].contains("device")) row["device"] = record["params"]["device"];
  add_sparse_product(record, row);
  for (const auto& [label, value] : entry.labels) row[label] = value;
  return row;
}

std::string origin_of(const Row& row, const std::string& column, const Config& config,
                      std::span<const Derive> derives);

/// True when the row was unfolded from times.
bool unfolds_stages(const Row& row, const Config& config) {
  return std::ranges::any_of(config.unfolds, [&](const Unfold& unfold) {
    return unfold.of == "stages" && row.at("unfolded") == unfold.name;
  });
}

/// The origin of a value computed from values of several origins: that of a joined value if there
/// is one, so that a prediction over a measurement is no measurement; "counted" if all are.
std::string origin_of_derived(const Row& row, const Derive& derive, const Config& config,
                              std::span<const Derive> before) {
  const auto used = variables_of(derive);
  bool counted = !used.empty();
  for (const std::string& variable : used) {
    const std::string origin = origin_of(row, variable, config, before);
    if (origin == "counted") continue;
    counted = false;
    if (origin != cell_text(row, "origin") && origin != "measured") return origin;
  }
  return counted ? "counted" : cell_text(row, "origin");
}

/// The origin of a column. A derived column can only use those derived before it.
std::string origin_of(const Row& row, const std::string& column, const Config& config,
                      std::span<const Derive> derives) {
  for (std::size_t d = derives.size(); d-- > 0;)
    if (derives[d].name == column && !derives[d].expr.empty())
      return origin_of_derived(row, derives[d], config, derives.first(d));
  for (const Join& join : config.joins)
    for (const std::string& from : join.columns)
      if (column == joined_name(join, from))
        return origin_of({{"origin", cell_text(row, joined_name(join, "origin"))}}, from, config,
                         {});
  if (const Column* known = find_column(column)) {
    if (known->origin == ColumnOrigin::kHost) return "measured";
    if (known->origin == ColumnOrigin::kCounted) return "counted";
  }
  const bool of_pattern = std::ranges::find(statistics_columns(), column, &NamedValue::name) !=
                          statistics_columns().end();
  const bool unfolded =
      is_unfolded(row) && (column == "count" || column == "share") && !unfolds_stages(row, config);
  if (of_pattern || unfolded) return "counted";
  return cell_text(row, "origin");
}

}  // namespace

std::vector<Row> make_rows(const Plan& plan, const RecordSet& records, const Config& config) {
  std::map<std::string, const Json*> by_hash;
  for (const Json& record : records.points) by_hash[record.at("params_hash")] = &record;
  std::vector<Row> rows;
  for (const PlanEntry& entry : plan.entries)
    if (const auto found = by_hash.find(entry.hash); found != by_hash.end())
      rows.push_back(flat_row(entry, *found->second, records));

  for (const Join& join : config.joins) join_rows(join, config, rows);
  for (const Derive& derive : config.derives) derive_column(derive, config, rows);
  for (const Unfold& unfold : config.unfolds) unfold_rows(unfold, config, rows);
  for (const Reduce& reduce : config.reduces) reduce_rows(reduce, config, rows);
  return rows;
}

std::vector<Row> record_rows(const RecordSet& records) {
  std::vector<Row> rows;
  for (const Json& record : records.points) {
    const std::string reference = record.at("params").value("matrix", "");
    const std::string name =
        record.contains("matrix") ? record["matrix"].value("name", reference) : reference;
    rows.push_back(flat_row({.point = {}, .matrix = name}, record, records));
  }
  return rows;
}

std::vector<Row> planned_rows(const Plan& plan) {
  std::vector<Row> rows;
  for (const PlanEntry& entry : plan.entries)
    rows.push_back(flat_row(entry, {{"params", to_json(entry.point)}}, {}));
  return rows;
}

const std::map<std::string, std::string>& row_columns() {
  static const std::map<std::string, std::string> columns = [] {
    std::map<std::string, std::string> all;
    for (const NamedValue& figure : statistics_columns()) all[figure.name] = figure.meaning;
    for (const NamedValue& figure : analyse(count_for_models(CsrMatrix{}, false), 1, Device{}))
      all[figure.name] = figure.meaning;
    for (const Column& column : record_columns()) all[column.name] = to_text(column);
    for (const std::string& kernel : Registry<SpgemmKernel>::instance().names())
      all[prediction_column(kernel)] = fmt::format(
          "time of {} as predicted by a kernel that chooses between kernels, us", kernel);
    add_parameters<Reordering>("reorder", all);
    add_parameters<Format>("format", all);
    add_parameters<SpmmKernel>("kernel", all);
    add_parameters<SpgemmKernel>("kernel", all);
    add_parameters<SddmmKernel>("kernel", all);
    add_parameters<Model>("model", all);
    add_parameters<ValueFamily>("values", all);
    return all;
  }();
  return columns;
}

std::string value_origin(const Row& row, const std::string& column, const Config& config) {
  return origin_of(row, column, config, config.derives);
}

void check_column(const std::string& column, const std::vector<Row>& rows, const Config& config,
                  const SourceLocation& place) {
  std::set<std::string> known;
  for (const auto& [name, meaning] : row_columns()) known.insert(name);
  for (const Join& join : config.joins) {
    known.insert(joined_name(join, "origin"));
    for (const std::string& name : join.columns) known.insert(joined_name(join, name));
  }
  for (const Derive& derive : config.derives) known.insert(derive.name);
  for (const Unfold& unfold : config.unfolds) known.insert(unfold.name);
  for (const Row& row : rows)
    for (const auto& [name, value] : row) known.insert(name);
  const bool is_stage = column.starts_with("stage_") && column.ends_with("_us");
  if (is_stage || known.contains(column)) return;
  const std::string near = nearest_name(column, {known.begin(), known.end()});
  throw Error(fmt::format("{}: unknown column '{}'{}; `tessera list columns` has those of records",
                          place, column,
                          near.empty() ? "" : fmt::format(", did you mean '{}'", near)));
}

std::vector<Row> select(const std::vector<Row>& rows, const Settings& where) {
  std::vector<Row> selected;
  for (const Row& row : rows) {
    if (!where.contains("status") && row.at("status") != "ok") continue;
    if (!where.contains("unfolded") && is_unfolded(row)) continue;
    if (matches(row, where)) selected.push_back(row);
  }
  return selected;
}

std::string cell_text(const Row& row, const std::string& column) {
  const auto found = row.find(column);
  if (found == row.end()) return "";
  const Json& value = found->second;
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.dump();
}

}  // namespace tessera
