#include "experiments/tables/latex.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "experiments/records/columns.hpp"
#include "experiments/tables/row_steps.hpp"
#include "experiments/tables/table.hpp"

namespace tessera {
namespace {

/// Rows that agree in these columns compete for the bold type.
constexpr const char* kCompetition[] = {"matrix", "right", "mask", "n", "device", "seed", "values"};

/// Units of which less is better, units of which more is, and columns of no or an ambiguous unit.
const std::set<std::string> kLessUnits{"us", "s", "bytes", "MB", "ulp"};
const std::set<std::string> kMoreUnits{"GFLOP/s", "1/s"};
const std::set<std::string> kLess{
    "smape_pct",      "smape_common_pct",   "smape_fp32_pct",      "relative_frobenius",
    "max_rel",        "backward_error",     "bound_ratio",         "backward_error_median",
    "padding_ratio",  "backward_error_p99", "backward_error_mean", "normwise_backward_error",
    "bits_different", "l1_load_sectors",    "l2_read_sectors"};
const std::set<std::string> kMore{"mean_nnz_tc", "tile_density", "l1_hit_pct", "l2_hit_pct",
                                  "compression"};

/// The column of records that a column of a table shows: itself, or what a [[join]] took.
const Column* documented(const std::string& column, const Config& config) {
  for (const Join& join : config.joins)
    for (const std::string& from : join.columns)
      if (column == joined_name(join, from)) return find_column(from);
  return find_column(column);
}

/// 1 where more is better, -1 where less is, 0 where neither is known to be.
int direction(const std::string& column, const Config& config) {
  if (!config.table.empty()) {
    const Settings& best = config.table.front().best;
    if (const auto found = best.find(column); found != best.end())
      return found->second.value == "max" ? 1 : -1;
  }
  const Column* known = documented(column, config);
  if (known == nullptr) return 0;
  if (kLessUnits.contains(known->unit) || kLess.contains(known->name)) return -1;
  return kMoreUnits.contains(known->unit) || kMore.contains(known->name) ? 1 : 0;
}

std::optional<double> number_in(const Row& row, const std::string& column) {
  const auto found = row.find(column);
  if (found == row.end() || !found->second.is_number()) return {};
  return found->second.get<double>();
}

/// The rows' groups, by the columns of kCompetition that the table shows.
std::vector<std::string> competitions(const ResultTable& table) {
  std::vector<std::string> keys;
  for (const Row& row : table.rows) {
    std::string key;
    for (const char* column : kCompetition)
      if (std::ranges::find(table.columns, column) != table.columns.end())
        key += cell_text(row, column) + "|";
    keys.push_back(key);
  }
  return keys;
}

/// The best value of a column in every group that has at least two different ones.
std::map<std::string, double> best_values(const ResultTable& table, const std::string& column,
                                          int direction, const std::vector<std::string>& groups) {
  std::map<std::string, std::set<double>> values;
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    if (const auto value = number_in(table.rows[r], column)) values[groups[r]].insert(*value);
  std::map<std::string, double> best;
  for (const auto& [group, all] : values)
    if (direction != 0 && all.size() > 1)
      best[group] = direction > 0 ? *all.rbegin() : *all.begin();
  return best;
}

/// "time" and "\textmu s" of time_us.
std::pair<std::string, std::string> head_of(const std::string& column, const Config& config) {
  const Column* known = documented(column, config);
  std::string name = column, unit = known == nullptr ? "" : known->unit;
  if (!unit.empty())
    for (const std::string suffix : {"_us", "_s", "_pct", "_bytes", "_mb"})
      if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  std::ranges::replace(name, '_', ' ');
  return {latex_text(name), unit == "us" ? "\\textmu s" : latex_text(unit)};
}

bool is_predicted(const std::string& origin) {
  return origin != "measured" && origin != "counted" && !origin.empty();
}

/// The origins of all results in the table; parameters, which are whole numbers, have none.
std::set<std::string> origins_of(const ResultTable& table, const Config& config) {
  std::set<std::string> origins;
  for (const Row& row : table.rows)
    for (const std::string& column : table.columns)
      if (row.contains(column) && row.at(column).is_number_float())
        origins.insert(value_origin(row, column, config));
  origins.erase("counted");
  return origins;
}

std::string origin_line(const std::set<std::string>& origins, const std::string& provenance) {
  std::string text = "All values " + (origins.empty() ? "counted" : latex_text(*origins.begin()));
  std::vector<std::string> predicted;
  std::ranges::copy_if(origins, std::back_inserter(predicted), is_predicted);
  if (origins.size() > 1)
    text = fmt::format("Italic: {}; the others are not predicted",
                       latex_text(fmt::format("{}", fmt::join(predicted, ", "))));
  return fmt::format("{}. {}", text, latex_text(provenance));
}

std::string cell_of(const Row& row, const std::string& column) {
  const auto value = number_in(row, column);
  if (!value || row.at(column).is_number_integer()) return latex_text(cell_text(row, column));
  return latex_number(*value);
}

}  // namespace

std::string latex_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string("&%$#_{}").find(c) != std::string::npos)
      escaped += std::string("\\") + c;
    else if (c == '\\')
      escaped += "\\textbackslash{}";
    else if (c == '~' || c == '^')
      escaped += c == '~' ? "\\textasciitilde{}" : "\\textasciicircum{}";
    else if (c == '<' || c == '>')
      escaped += fmt::format("${}$", c);
    else
      escaped += c;
  }
  return escaped;
}

std::string latex_number(double value) {
  if (std::abs(value) >= 1e3 && std::abs(value) < 1e6) return fmt::format("{:.0f}", value);
  const std::string text = fmt::format("{:.4g}", value);
  const auto e = text.find('e');
  if (e == std::string::npos) return text;
  return fmt::format("${}\\times10^{{{}}}$", text.substr(0, e), std::stoi(text.substr(e + 1)));
}

std::string latex_table(const Report& report) {
  const ResultTable table = result_table(report);
  const std::vector<std::string> groups = competitions(table);
  const std::set<std::string> origins = origins_of(table, report.config);
  std::vector<std::map<std::string, double>> best;
  std::vector<std::string> names, units;
  std::string alignment;
  for (const std::string& column : table.columns) {
    best.push_back(best_values(table, column, direction(column, report.config), groups));
    const auto [name, unit] = head_of(column, report.config);
    names.push_back(name);
    units.push_back(unit.empty() ? "" : "(" + unit + ")");
    alignment += std::ranges::any_of(
                     table.rows, [&](const Row& row) { return number_in(row, column).has_value(); })
                     ? 'r'
                     : 'l';
  }
  std::string text = fmt::format(
      "% Written by tessera from the [table] of {}. Needs \\usepackage{{booktabs}}.\n"
      "\\begin{{tabular}}{{{}}}\n\\toprule\n{} \\\\\n",
      report.config.id, alignment, fmt::join(names, " & "));
  if (std::ranges::any_of(units, [](const std::string& unit) { return !unit.empty(); }))
    text += fmt::format("{} \\\\\n", fmt::join(units, " & "));
  text += "\\midrule\n";
  const bool have_rivals = std::ranges::adjacent_find(groups) != groups.end();
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    if (r > 0 && groups[r] != groups[r - 1] && have_rivals) text += "\\addlinespace\n";
    const Row& row = table.rows[r];
    std::vector<std::string> cells;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const std::string& column = table.columns[c];
      std::string cell = cell_of(row, column);
      const auto value = number_in(row, column);
      const auto winner = best[c].find(groups[r]);
      if (value && winner != best[c].end() && *value == winner->second)
        cell = fmt::format("\\textbf{{{}}}", cell);
      if (value && origins.size() > 1 && row.at(column).is_number_float() &&
          is_predicted(value_origin(row, column, report.config)))
        cell = fmt::format("\\textit{{{}}}", cell);
      cells.push_back(std::move(cell));
    }
    text += fmt::format("{} \\\\\n", fmt::join(cells, " & "));
  }
  return text + fmt::format(
                    "\\bottomrule\n\\multicolumn{{{}}}{{l}}{{\\footnotesize {}}} \\\\\n"
                    "\\end{{tabular}}\n",
                    table.columns.size(), origin_line(origins, provenance_text(report.records)));
}

}  // namespace tessera
