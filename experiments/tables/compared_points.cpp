#include "experiments/tables/compared_points.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "experiments/points/any_kernel.hpp"
#include "experiments/tables/row_steps.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/suggest.hpp"
#include "formats/format.hpp"
#include "model/model.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

constexpr std::array kVariants{"reorder", "format", "kernel", "model"};
constexpr std::array kPlain{"matrix", "right", "mask",   "n",       "seed",   "values",
                            "device", "l2",    "sample", "threads", "backend"};
// Of the machine: no part of the identity, but they may be compared.
constexpr std::array kCircumstances{"commit", "host"};
// The columns that differing_columns() finds, beside the parameters of variants.
constexpr std::array kFound{"device", "kernel", "reorder", "format", "model", "l2"};

template <class Names>
bool is_one_of(const Names& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string before_dot(const std::string& column) { return column.substr(0, column.find('.')); }

/// The default of a parameter as it stands in records.
Json default_of(const ParamSpec& spec) {
  return std::visit([](const auto& value) -> Json { return value; }, spec.fallback);
}

/// The parameters of a variant that this program knows.
const std::vector<ParamSpec>& specs_of(const std::string& stage, const std::string& name) {
  static const std::vector<ParamSpec> none;
  try {
    if (stage == "kernel") return kernel_params(name);
    if (stage == "reorder") return Registry<Reordering>::instance().find(name).params;
    if (stage == "format") return Registry<Format>::instance().find(name).params;
    return Registry<Model>::instance().find(name).params;
  } catch (const Error&) {
    return none;  // of another program's records
  }
}

void add_variant(const std::string& stage, const Json& variant, Row& identity) {
  const std::string name = variant.at("name");
  for (const ParamSpec& spec : specs_of(stage, name))
    identity[stage + "." + spec.name] = default_of(spec);
  for (const auto& [param, value] : variant.items())
    identity[param == "name" ? stage : stage + "." + param] = value;
}

/// A file may lie elsewhere on another machine.
std::string matrix_key(const std::string& reference) {
  return reference.starts_with('/') ? std::filesystem::path(reference).stem().string() : reference;
}

Row identity_of(const Json& params, const Row& row) {
  Row identity;
  for (const char* column : kPlain)
    if (const auto found = params.find(column); found != params.end()) identity[column] = *found;
  identity["matrix"] = matrix_key(params.at("matrix"));
  for (const char* column : {"right", "mask"})
    if (const auto found = params.find(column); found != params.end())
      identity[column] = matrix_key(*found);
  for (const char* column : {"device", "l2"})
    if (const auto found = row.find(column); found != row.end()) identity[column] = found->second;
  for (const char* stage : kVariants)
    if (const auto found = params.find(stage); found != params.end())
      add_variant(stage, *found, identity);
  return identity;
}

std::string value_text(const Row& row, const std::string& column) {
  const std::string text = cell_text(row, column);
  return text.empty() ? "none" : text;
}

/// The values that a column takes.
using Values = std::map<std::string, std::set<std::string>>;

Values values_of(const std::vector<ComparedPoint>& points) {
  std::set<std::string> columns;
  for (const ComparedPoint& point : points)
    for (const auto& [column, value] : point.identity) columns.insert(column);
  Values values;
  for (const std::string& column : columns)
    for (const ComparedPoint& point : points)
      values[column].insert(value_text(point.identity, column));
  return values;
}

/// The value of a compared column; of a variant with its parameters that vary among `points`.
std::string label_of(const std::string& column, const ComparedPoint& point,
                     const std::set<std::string>& varying) {
  if (is_one_of(kCircumstances, column)) return value_text(point.row, column);
  const std::string name = value_text(point.identity, column);
  if (!is_one_of(kVariants, column)) return name;
  std::string params;
  for (const auto& [param, value] : point.identity) {
    if (!param.starts_with(column + ".") || !varying.contains(name + " " + param)) continue;
    params += (params.empty() ? "" : ", ") + param.substr(column.size() + 1) + "=" +
              cell_text(point.identity, param);
  }
  if (column == "kernel" && varying.contains(name + " format"))
    params += (params.empty() ? "" : ", ") + std::string("format=") +
              value_text(point.identity, "format");
  return params.empty() ? name : name + "(" + params + ")";
}

/// "csr_spmm kernel.promote": the parameters of variants that take several values, and " format" of
/// kernels that read several.
std::set<std::string> varying_parameters(const std::string& stage,
                                         const std::vector<const ComparedPoint*>& points) {
  std::map<std::string, std::set<std::string>> values;
  for (const ComparedPoint* point : points) {
    const std::string name = value_text(point->identity, stage);
    for (const auto& [column, value] : point->identity)
      if (column.starts_with(stage + ".") || (stage == "kernel" && column == "format"))
        values[name + " " + column].insert(value.dump());
  }
  std::set<std::string> varying;
  for (const auto& [parameter, found] : values)
    // A kernel's parameter "format" names the point's format.
    if (found.size() > 1 && !parameter.ends_with(" kernel.format")) varying.insert(parameter);
  return varying;
}

std::string plain_text(const std::set<std::string>& values) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> shown(values.begin(), values.end());
  if (shown.size() > kMost) {
    shown.resize(kMost);
    shown.emplace_back("...");
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

void check_compared(const std::vector<ComparedPoint>& points, const std::vector<std::string>& by) {
  std::set<std::string> known(kCircumstances.begin(), kCircumstances.end());
  for (const auto& [column, values] : values_of(points)) known.insert(column);
  for (const std::string& column : by)
    require(known.contains(column), "--by: {}",
            unknown_name_message("column", column, {known.begin(), known.end()}));
}

}  // namespace

std::vector<ComparedPoint> compared_points(const RecordSet& records, const Settings& where,
                                           const std::vector<std::string>& by) {
  const std::vector<Row> rows = record_rows(records);
  for (const auto& [column, setting] : where) check_column(column, rows, Config{}, setting.place);
  std::map<std::string, ComparedPoint> latest;
  std::vector<std::string> order;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Json& record = records.points[i];
    if (!matches(rows[i], where) || record["params"].value("backend", std::string()).empty())
      continue;
    std::string id = record.at("params_hash");
    for (const char* column : {"commit", "host", "device"})
      if (is_one_of(by, column)) id.append(1, ' ').append(cell_text(rows[i], column));
    ComparedPoint point{rows[i], identity_of(record["params"], rows[i]), ""};
    if (record.contains("matrix")) point.matrix_hash = record["matrix"].value("hash", "");
    if (!latest.contains(id)) order.push_back(id);
    latest[id] = std::move(point);
  }
  std::vector<ComparedPoint> points;
  for (const std::string& id : order) points.push_back(std::move(latest.at(id)));
  if (!points.empty()) check_compared(points, by);
  return points;
}

std::vector<std::string> differing_columns(const std::vector<ComparedPoint>& a,
                                           const std::vector<ComparedPoint>& b) {
  Values of_a = values_of(a), of_b = values_of(b);
  std::vector<std::string> columns;
  const auto differs = [&](const std::string& column) {
    const auto& in_a = of_a[column];
    const auto& in_b = of_b[column];
    return in_a.size() == 1 && in_b.size() == 1 && in_a != in_b;
  };
  for (const char* column : kFound)
    if (differs(column) && !is_compared(column, columns)) columns.emplace_back(column);
  for (const auto& [column, values] : of_b)
    if (is_one_of(kVariants, before_dot(column)) && column != before_dot(column) &&
        differs(column) && !is_compared(column, columns))
      columns.push_back(column);
  return columns;
}

void set_labels(const std::vector<std::string>& by,
                const std::vector<std::vector<ComparedPoint>*>& sets) {
  std::vector<const ComparedPoint*> all;
  for (const auto* set : sets)
    for (const ComparedPoint& point : *set) all.push_back(&point);
  for (const std::string& column : by) {
    const std::set<std::string> varying =
        is_one_of(kVariants, column) ? varying_parameters(column, all) : std::set<std::string>{};
    for (auto* set : sets)
      for (ComparedPoint& point : *set)
        point.label += (point.label.empty() ? "" : ", ") + label_of(column, point, varying);
  }
}

bool is_compared(const std::string& column, const std::vector<std::string>& by) {
  return std::ranges::any_of(by, [&](const std::string& compared) {
    const auto follows = [&](const std::string& of) {
      return column == of || column.starts_with(of + ".");
    };
    if (compared == "kernel" && follows("format")) return true;
    if (compared == "backend" && (follows("device") || follows("model"))) return true;
    return follows(compared);
  });
}

void set_keys(const std::vector<std::string>& by, std::vector<ComparedPoint>& points) {
  for (ComparedPoint& point : points) {
    Json key = Json::object();
    for (const auto& [column, value] : point.identity)
      if (!is_compared(column, by)) key[column] = value;
    point.key = key.dump();
  }
}

std::string find_label(const std::vector<ComparedPoint>& points, const std::string& baseline,
                       const std::vector<std::string>& by) {
  if (baseline.empty()) return points.front().label;
  std::vector<std::string> labels, of_name;
  for (const ComparedPoint& point : points) {
    if (is_one_of(labels, point.label)) continue;
    labels.push_back(point.label);
    if (point.label.starts_with(baseline + "(")) of_name.push_back(point.label);
  }
  if (is_one_of(labels, baseline)) return baseline;
  require(of_name.size() < 2, "--baseline {}: there are several: {}", baseline,
          fmt::join(of_name, "; "));
  if (of_name.size() == 1) return of_name.front();
  throw Error("--baseline: " +
              unknown_name_message(fmt::format("{}", fmt::join(by, ", ")), baseline, labels));
}

void refuse_doubles(const std::string& set, const std::vector<const ComparedPoint*>& points) {
  std::map<std::string, const ComparedPoint*> first;
  for (const ComparedPoint* point : points) {
    const auto [found, is_new] = first.emplace(point->key, point);
    if (is_new) continue;
    std::string apart;
    for (const auto& [column, value] : point->identity) {
      const auto other = found->second->identity.find(column);
      if (other != found->second->identity.end() && other->second != value)
        apart +=
            fmt::format("; {} is {} and {}", column, value_text(found->second->identity, column),
                        value_text(point->identity, column));
    }
    throw Error(fmt::format("{} has two points for {}{}{}: choose one with --where{}", set,
                            value_text(point->identity, "matrix"),
                            point->label.empty() ? "" : ", " + point->label, apart,
                            set == "B" ? "-b" : "-a"));
  }
}

void refuse_doubles(const std::string& set, const std::vector<ComparedPoint>& points) {
  std::vector<const ComparedPoint*> all;
  for (const ComparedPoint& point : points) all.push_back(&point);
  refuse_doubles(set, all);
}

std::string no_pairs_message(const std::vector<ComparedPoint>& a,
                             const std::vector<ComparedPoint>& b,
                             const std::vector<std::string>& by) {
  const Values of_a = values_of(a);
  Values of_b = values_of(b);
  std::string apart;
  for (const auto& [column, in_a] : of_a) {
    const auto& in_b = of_b[column];
    const bool meet =
        std::ranges::any_of(in_a, [&](const std::string& v) { return in_b.contains(v); });
    if (!meet && !in_b.empty() && !is_compared(column, by))
      apart +=
          fmt::format("; {} is {} in A and {} in B", column, plain_text(in_a), plain_text(in_b));
  }
  return "no point of A has a partner in B" +
         (apart.empty() ? std::string(": no two agree in everything") : apart) +
         "; --by COLUMN compares points that differ in a column";
}

std::vector<std::string> identity_columns(const Row& row) {
  std::vector<std::string> columns;
  // A kernel says most, and its format follows from it.
  for (const char* owner : {"matrix", "right", "n", "values", "seed", "reorder", "kernel",
                            "backend", "device", "model", "format", "l2", "sample", "threads"})
    for (const auto& [column, value] : row)
      if (before_dot(column) == owner) columns.push_back(column);
  return columns;
}

}  // namespace tessera
