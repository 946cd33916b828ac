#include "experiments/tables/row_steps.hpp"

#include <muParser.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/config/expression.hpp"
#include "formats/base/check.hpp"
#include "formats/statistics/histogram.hpp"

namespace tessera {
namespace {

/// The values that the rows of a case share, as text.
std::string case_key(const Row& row, const std::vector<std::string>& on) {
  Json key = Json::array();
  for (const std::string& column : on) {
    const auto found = row.find(column);
    key.push_back(found == row.end() ? Json() : found->second);
  }
  return key.dump();
}

void derive_by_bins(const Derive& derive, Row& row) {
  const auto of = row.find(derive.of);
  if (of == row.end() || !of->second.is_number()) return;
  const auto bin = std::ranges::upper_bound(derive.bins, of->second.get<double>());
  row[derive.name] = derive.labels[bin - derive.bins.begin()];
}

/// Columns in the expression are its variables; a row without one of them gets no value.
void derive_by_expression(const Derive& derive, const Config& config, std::vector<Row>& rows) {
  mu::Parser parser;
  std::map<std::string, double> values;
  try {
    parser.SetExpr(derive.expr);
    for (const std::string& name : variables_of(derive)) {
      check_column(name, rows, config, derive.place);
      parser.DefineVar(name, &values[name]);
    }
    refuse_assignment(derive.expr, derive.place);
    for (Row& row : rows) {
      const bool complete = std::ranges::all_of(values, [&](auto& variable) {
        const auto found = row.find(variable.first);
        if (found == row.end() || !found->second.is_number()) return false;
        variable.second = found->second.template get<double>();
        return true;
      });
      if (!complete) continue;
      const double result = parser.Eval();
      if (std::isfinite(result)) row[derive.name] = result;
    }
  } catch (const mu::Parser::exception_type& error) {
    throw Error(fmt::format("{}: '{}': {}", derive.place, derive.expr, error.GetMsg()));
  }
}

}  // namespace

bool matches(const Row& row, const Settings& where) {
  return std::ranges::all_of(where, [&](const auto& condition) {
    const auto found = row.find(condition.first);
    if (found == row.end()) return false;
    const Json& wanted = condition.second.value;
    if (wanted.is_array()) return std::ranges::find(wanted, found->second) != wanted.end();
    return found->second == wanted;
  });
}

std::string joined_name(const Join& join, const std::string& column) {
  return join.name + "_" + column;
}

void join_rows(const Join& join, const Config& config, std::vector<Row>& rows) {
  for (const auto* columns : {&join.on, &join.columns})
    for (const std::string& column : *columns) check_column(column, rows, config, join.place);
  for (const auto& [column, setting] : join.from) check_column(column, rows, config, setting.place);
  std::map<std::string, Row> joined;
  for (const Row& row : rows) {
    if (row.at("status") != "ok" || !matches(row, join.from)) continue;
    const bool is_new = joined.try_emplace(case_key(row, join.on), row).second;
    require(is_new,
            "{}: [[join]] '{}' finds two rows for {} {}: narrow 'from', or add what tells them "
            "apart to 'on'",
            join.place, join.name, cell_text(row, "matrix"), cell_text(row, "kernel"));
  }
  for (Row& row : rows) {
    if (matches(row, join.from)) continue;
    const auto found = joined.find(case_key(row, join.on));
    if (found == joined.end()) continue;
    row[joined_name(join, "origin")] = found->second.at("origin");
    for (const std::string& column : join.columns)
      if (const auto value = found->second.find(column); value != found->second.end())
        row[joined_name(join, column)] = value->second;
  }
}

std::vector<std::string> variables_of(const Derive& derive) {
  mu::Parser parser;
  parser.SetExpr(derive.expr);
  std::vector<std::string> names;
  for (const auto& [name, value] : parser.GetUsedVar()) names.push_back(name);
  return names;
}

void derive_column(const Derive& derive, const Config& config, std::vector<Row>& rows) {
  if (derive.of.empty()) return derive_by_expression(derive, config, rows);
  check_column(derive.of, rows, config, derive.place);
  for (Row& row : rows) derive_by_bins(derive, row);
}

bool is_unfolded(const Row& row) { return row.contains("unfolded"); }

namespace {

/// A row for every stage of the row's product.
void unfold_stages(const Unfold& unfold, std::size_t of, std::vector<Row>& rows) {
  const Json stages = rows[of].at(unfold.of);
  double sum = 0;
  for (const Json& stage : stages) sum += stage["us"].get<double>();
  for (const Json& stage : stages) {
    Row row = rows[of];
    row["unfolded"] = unfold.name;
    row[unfold.name] = stage["name"];
    row["count"] = stage["us"];
    if (sum > 0) row["share"] = stage["us"].get<double>() / sum;
    rows.push_back(std::move(row));
  }
}

}  // namespace

void unfold_rows(const Unfold& unfold, const Config& config, std::vector<Row>& rows) {
  check_column(unfold.of, rows, config, unfold.place);
  std::vector<std::pair<std::size_t, Histogram>> histograms;  // row and what it unfolds to
  std::vector<std::size_t> stages;                            // rows
  std::size_t bins = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto of = rows[i].find(unfold.of);
    if (of == rows[i].end() || is_unfolded(rows[i])) continue;
    if (of->second.is_array()) stages.push_back(i);
    if (!of->second.is_string()) continue;
    histograms.push_back({i, histogram_from_text(of->second.get<std::string>())});
    bins = std::max(bins, histograms.back().second.bins.size());
  }
  for (const auto& [i, histogram] : histograms) {
    const auto sum = static_cast<double>(
        std::accumulate(histogram.bins.begin(), histogram.bins.end(), std::int64_t{0}));
    for (std::size_t bin = 0; bin < bins && sum > 0; ++bin) {
      const std::int64_t count = bin < histogram.bins.size() ? histogram.bins[bin] : 0;
      Row row = rows[i];
      row["unfolded"] = unfold.name;
      row[unfold.name] = bin_text(bin);
      row["count"] = count;
      row["share"] = static_cast<double>(count) / sum;
      rows.push_back(std::move(row));
    }
  }
  for (const std::size_t i : stages) unfold_stages(unfold, i, rows);
}

void reduce_rows(const Reduce& reduce, const Config& config, std::vector<Row>& rows) {
  check_column(reduce.by, rows, config, reduce.place);
  check_column(reduce.column, rows, config, reduce.place);
  for (const std::string& column : reduce.keep) check_column(column, rows, config, reduce.place);
  for (const auto& [column, setting] : reduce.where)
    check_column(column, rows, config, setting.place);
  std::map<std::string, std::size_t> best;
  std::vector<std::string> order;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto by = rows[i].find(reduce.by);
    if (by == rows[i].end() || !by->second.is_number() || rows[i]["status"] != "ok" ||
        is_unfolded(rows[i]) || !matches(rows[i], reduce.where))
      continue;
    Json key = Json::array();
    for (const std::string& column : reduce.keep)
      key.push_back(rows[i].contains(column) ? rows[i][column] : Json());
    const auto [found, is_new] = best.try_emplace(key.dump(), i);
    if (is_new) {
      order.push_back(key.dump());
      continue;
    }
    const double now = by->second.get<double>();
    const double before = rows[found->second][reduce.by].get<double>();
    if (reduce.largest ? now > before : now < before) found->second = i;
  }
  for (const std::string& key : order) {
    Row row = rows[best[key]];
    row["chosen"] = row.contains(reduce.column) ? row[reduce.column] : Json();
    row[reduce.column] = reduce.name;
    rows.push_back(std::move(row));
  }
}

}  // namespace tessera
