#include "experiments/tables/rows.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>

#include "experiments/records/columns.hpp"
#include "experiments/run/analysis.hpp"
#include "experiments/tables/record_cells.hpp"
#include "experiments/tables/row_steps.hpp"
#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
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

/// The columns "kernel.precision", ... of everything registered.
template <class T>
void add_parameters(const std::string& stage, std::map<std::string, std::string>& columns) {
  for (const auto& [name, entry] : Registry<T>::instance().entries())
    for (const ParamSpec& spec : entry.params)
      columns[stage + "." + spec.name] = fmt::format("{} of {}", spec.name, name);
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

/// "row_spgemm" becomes the column predicted_row_spgemm_us.
std::string prediction_column(const std::string& kernel) { return "predicted_" + kernel + "_us"; }

constexpr std::size_t kShared = 8192;  // values that rows share at a time

/// Of a string and of a view alike.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

/// Makes the rows of a set.
class FlatRows {
 public:
  /// With `wanted`, of these columns and labels alone.
  explicit FlatRows(const std::map<std::string, Json>& environments,
                    const std::set<std::string>* wanted = nullptr)
      : environments_(environments), wanted_(wanted), cells_(wanted) {}

  /// Of the record's text, as dump() writes it.
  Row row_of_text(const PlanEntry& entry, std::string_view text) {
    require(line_.read(text, true), "not a record: {}", text);
    const auto environment = environments_.find(line_.text_at({"env_id"}));
    const bool has_one = environment != environments_.end();
    const std::vector<RecordCell>& cells =
        cells_.read(entry.matrix, line_, has_one ? &environment->second : nullptr);
    chosen_.clear();
    for (const RecordCell& cell : cells)
      if (const std::string* name = name_of(cell.column)) chosen_.push_back({name, &cell});
    std::ranges::sort(chosen_, {},
                      [](const auto& one) -> const std::string& { return *one.first; });
    Row row;
    row.reserve(chosen_.size() + entry.labels.size());
    for (const auto& [name, cell] : chosen_) row.share(*name, value_of(*cell));
    for (const auto& [label, value] : entry.labels)
      row.share(column_name(label), shared(labels_, value, [&] { return Json(value); }));
    return row;
  }

  Row row(const PlanEntry& entry, const Json& record) { return row_of_text(entry, record.dump()); }

 private:
  using Values = std::unordered_map<std::string, Row::Value, TextHash, std::equal_to<>>;

  /// Null for a column that is not wanted.
  const std::string* name_of(std::uint32_t column) {
    while (names_.size() <= column) {
      const std::string& name = cells_.columns()[names_.size()];
      const bool is_wanted = wanted_ == nullptr || wanted_->contains(name);
      names_.push_back(is_wanted ? &column_name(name) : nullptr);
    }
    return names_[column];
  }

  /// Measured values are seldom the same.
  Row::Value value_of(const RecordCell& cell) {
    if (cell.kind == JsonLine::Kind::kFloat) return std::make_shared<Json>(to_json(cell));
    return shared(values_, cell.text, [&] { return to_json(cell); });
  }

  /// The value that rows with this text share.
  template <class Make>
  static Row::Value shared(Values& known, std::string_view text, const Make& make) {
    const auto found = known.find(text);
    if (found != known.end()) return found->second;
    if (known.size() >= kShared) known.clear();
    return known[std::string(text)] = std::make_shared<Json>(make());
  }

  const std::map<std::string, Json>& environments_;
  const std::set<std::string>* wanted_;
  RecordCells cells_;
  JsonLine line_;
  std::vector<const std::string*> names_;  // of columns, as far as they were asked for
  Values values_;                          // by their JSON
  Values labels_;                          // by their text
  std::vector<std::pair<const std::string*, const RecordCell*>> chosen_;  // of the record
};

/// The value of a column that a point's request alone decides; nothing for other columns.
std::optional<Json> requested(const PlanEntry& entry, const std::string& column) {
  if (const auto label = entry.labels.find(column); label != entry.labels.end())
    return label->second;
  if (column == "matrix") return entry.matrix;
  if (column == "backend") return entry.point.backend;
  if (column == "reorder") return entry.point.reorder.name;
  const auto* product = std::get_if<DenseProduct>(&entry.point.task);
  if (product != nullptr && column == "n") return product->n;
  if (product != nullptr && column == "kernel" && product->kernel.name != kAuto)
    return product->kernel.name;
  return std::nullopt;
}

/// False when the row of the entry cannot match, whatever was recorded.
bool may_match(const PlanEntry& entry, const Settings& where) {
  return std::ranges::all_of(where, [&](const auto& condition) {
    const auto value = requested(entry, condition.first);
    return !value || matches({{condition.first, *value}}, {condition});
  });
}

/// Joins, derives, unfolds and reduces rows as the config says.
void work_out(const Config& config, std::vector<Row>& rows) {
  for (const Join& join : config.joins) join_rows(join, config, rows);
  for (const Derive& derive : config.derives) derive_column(derive, config, rows);
  for (const Unfold& unfold : config.unfolds) unfold_rows(unfold, config, rows);
  for (const Reduce& reduce : config.reduces) reduce_rows(reduce, config, rows);
}

constexpr std::int64_t kEntries = 16384;  // of a plan that a thread reads at a time

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
  FlatRows flat(records.environments);
  std::vector<Row> rows;
  for (const PlanEntry& entry : plan.entries)
    if (const auto found = by_hash.find(entry.hash); found != by_hash.end())
      rows.push_back(flat.row(entry, *found->second));

  work_out(config, rows);
  return rows;
}

std::vector<Row> make_wanted_rows(const Plan& plan, const RecordIndex& index, const Config& config,
                                  const WantedRows& wanted) {
  std::unordered_map<std::string_view, const IndexedRecord*> by_hash(index.points.size());
  for (const IndexedRecord& record : index.points) by_hash[record.params_hash] = &record;
  // Those that are derived may name a column of a point.
  const bool sees_all = !config.joins.empty() || !config.derives.empty() ||
                        !config.unfolds.empty() || !config.reduces.empty();
  const auto is_wanted = [&](const PlanEntry& entry) {
    return sees_all || std::ranges::any_of(wanted.any_of, [&](const Settings* where) {
             return may_match(entry, *where);
           });
  };
  std::vector<std::vector<Row>> pieces(plan.entries.size() / kEntries + 1);
  parallel_for(std::ssize(plan.entries), kEntries, [&](std::int64_t begin, std::int64_t end) {
    FlatRows flat(index.environments, &wanted.columns);
    IndexedLines lines(index);
    for (const PlanEntry& entry : std::span(plan.entries).subspan(begin, end - begin)) {
      if (!is_wanted(entry)) continue;
      if (const auto found = by_hash.find(entry.hash); found != by_hash.end())
        pieces[begin / kEntries].push_back(flat.row_of_text(entry, lines.line(*found->second)));
    }
  });
  std::size_t count = 0;
  for (const std::vector<Row>& piece : pieces) count += piece.size();
  std::vector<Row> rows;
  rows.reserve(count);
  for (std::vector<Row>& piece : pieces) {
    std::ranges::move(piece, std::back_inserter(rows));
    piece = {};
  }
  work_out(config, rows);
  return rows;
}

std::vector<Row> record_rows(const RecordSet& records) {
  FlatRows flat(records.environments);
  std::vector<Row> rows;
  for (const Json& record : records.points) {
    const std::string reference = record.at("params").value("matrix", "");
    const std::string name =
        record.contains("matrix") ? record["matrix"].value("name", reference) : reference;
    rows.push_back(flat.row({.point = {}, .matrix = name}, record));
  }
  return rows;
}

std::vector<Row> planned_rows(const Plan& plan) {
  const RecordSet none;
  FlatRows flat(none.environments);
  std::vector<Row> rows;
  for (const PlanEntry& entry : plan.entries)
    rows.push_back(flat.row(entry, {{"params", to_json(entry.point)}}));
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
  const bool is_stage = column.starts_with("stage_") && column.ends_with("_us");
  if (is_stage || row_columns().contains(column)) return;
  std::set<std::string> known;
  for (const auto& [name, meaning] : row_columns()) known.insert(name);
  for (const Join& join : config.joins) {
    known.insert(joined_name(join, "origin"));
    for (const std::string& name : join.columns) known.insert(joined_name(join, name));
  }
  for (const Derive& derive : config.derives) known.insert(derive.name);
  for (const Unfold& unfold : config.unfolds) known.insert(unfold.name);
  if (known.contains(column)) return;
  for (const Row& row : rows) {
    if (row.contains(column)) return;
    for (const auto& [name, value] : row) known.insert(name);
  }
  const std::string near = nearest_name(column, {known.begin(), known.end()});
  throw Error(fmt::format("{}: unknown column '{}'{}; `tessera list columns` has those of records",
                          place, column,
                          near.empty() ? "" : fmt::format(", did you mean '{}'", near)));
}

std::vector<Row> select(const std::vector<Row>& rows, const Settings& where) {
  std::vector<Row> selected;
  for (const Row* row : select_refs(rows, where)) selected.push_back(*row);
  return selected;
}

RowRefs select_refs(const std::vector<Row>& rows, const Settings& where) {
  const bool any_status = where.contains("status"), unfolded = where.contains("unfolded");
  RowRefs selected;
  for (const Row& row : rows) {
    if (!any_status && row.at("status") != "ok") continue;
    if (!unfolded && is_unfolded(row)) continue;
    if (matches(row, where)) selected.push_back(&row);
  }
  return selected;
}

RowRefs refs_of(const std::vector<Row>& rows) {
  RowRefs refs;
  refs.reserve(rows.size());
  for (const Row& row : rows) refs.push_back(&row);
  return refs;
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
