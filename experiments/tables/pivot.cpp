#include "experiments/tables/pivot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "experiments/tables/table.hpp"
#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {
namespace {

constexpr std::array kLargerIsBetter{"gflops",      "pool_gflops",      "nnz_per_s",
                                     "l1_hit_pct",  "l2_hit_pct",       "tensor_pct",
                                     "mean_nnz_tc", "warps_active_pct", "tile_density"};

Row keys_of(const Row& row, const PivotRule& rule) {
  Row keys;
  for (const std::string& column : rule.keys)
    if (const auto found = row.find(column); found != row.end()) keys[column] = found->second;
  return keys;
}

void mark(PivotLine& line, bool larger, std::optional<std::size_t> baseline) {
  std::optional<double> best;
  for (const PivotCell& cell : line.cells)
    if (cell.value && (!best || (larger ? *cell.value > *best : *cell.value < *best)))
      best = cell.value;
  std::size_t values = 0;
  for (const PivotCell& cell : line.cells) values += cell.value ? 1 : 0;
  const double unit = baseline ? line.cells[*baseline].value.value_or(0) : 0;
  for (PivotCell& cell : line.cells) {
    cell.best = values > 1 && cell.value == best && best;
    if (cell.value && *cell.value > 0 && unit > 0)
      cell.speed = larger ? *cell.value / unit : unit / *cell.value;
  }
}

/// The geometric means over the lines in which every series has a value above 0, but for series
/// that have none in any of them.
std::optional<PivotLine> mean_of(const std::vector<const PivotLine*>& lines) {
  std::vector<bool> live(lines.front()->cells.size(), false);
  for (const PivotLine* line : lines)
    for (std::size_t s = 0; s < live.size(); ++s)
      if (line->cells[s].value) live[s] = true;
  std::vector<const PivotLine*> whole;
  for (const PivotLine* line : lines) {
    bool complete = true;
    for (std::size_t s = 0; s < live.size(); ++s)
      complete &= !live[s] || (line->cells[s].value && *line->cells[s].value > 0);
    if (complete) whole.push_back(line);
  }
  if (whole.empty()) return std::nullopt;
  PivotLine mean{.keys = {},
                 .cells = std::vector<PivotCell>(live.size()),
                 .lines = static_cast<int>(whole.size())};
  for (std::size_t s = 0; s < live.size(); ++s) {
    if (!live[s]) continue;
    double logs = 0;
    for (const PivotLine* line : whole) logs += std::log(*line->cells[s].value);
    mean.cells[s].value = std::exp(logs / static_cast<double>(whole.size()));
  }
  return mean;
}

std::string short_number(double value) {
  const bool is_thousands = std::abs(value) >= 1e3 && std::abs(value) < 1e9;
  return is_thousands ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

/// The parts of cells in one column, each aligned with those of the other lines.
std::string cell_text(const PivotCell& cell, bool has_speeds) {
  if (!cell.value) return cell.status;
  std::string text = short_number(*cell.value) + (cell.best ? "*" : " ");
  if (has_speeds) text += cell.speed ? fmt::format(" ({:.2f}x)", *cell.speed) : "        ";
  return text;
}

Row row_of(const Pivot& pivot, const PivotLine& line) {
  Row row = line.keys;
  for (std::size_t s = 0; s < pivot.series.size(); ++s)
    row[pivot.series[s]] = cell_text(line.cells[s], !pivot.rule.baseline.empty());
  return row;
}

Json line_json(const Pivot& pivot, const PivotLine& line) {
  Json json{{"point", line.keys}};
  for (std::size_t s = 0; s < pivot.series.size(); ++s) {
    const PivotCell& cell = line.cells[s];
    Json& one = json["cells"][pivot.series[s]] = Json::object();
    if (cell.value) one["value"] = *cell.value;
    if (cell.speed) one["speed"] = *cell.speed;
    if (cell.best) one["best"] = true;
    if (!cell.status.empty()) one["status"] = cell.status;
  }
  return json;
}

}  // namespace

bool larger_is_better(const std::string& measure) {
  return std::ranges::find(kLargerIsBetter, measure) != kLargerIsBetter.end();
}

Pivot make_pivot(const std::vector<Row>& rows, const PivotRule& rule) {
  Pivot pivot{.rule = rule, .series = {}, .lines = {}, .means = {}, .wins = {}};
  for (const Row& row : rows)
    if (const std::string name = cell_text(row, rule.series);
        std::ranges::find(pivot.series, name) == pivot.series.end())
      pivot.series.push_back(name);
  std::optional<std::size_t> baseline;
  if (!rule.baseline.empty()) {
    const auto found = std::ranges::find(pivot.series, rule.baseline);
    require(found != pivot.series.end(), "--baseline: {}",
            unknown_name_message("kernel", rule.baseline, pivot.series));
    baseline = found - pivot.series.begin();
  }

  for (const Row& row : rows) {
    const Row keys = keys_of(row, rule);
    auto line = std::ranges::find(pivot.lines, keys, &PivotLine::keys);
    if (line == pivot.lines.end()) {
      pivot.lines.push_back({keys, std::vector<PivotCell>(pivot.series.size())});
      line = pivot.lines.end() - 1;
    }
    const std::size_t s =
        std::ranges::find(pivot.series, cell_text(row, rule.series)) - pivot.series.begin();
    PivotCell& cell = line->cells[s];
    require(!cell.value && cell.status.empty(), "two results for {} of {}: a column is missing",
            pivot.series[s], cell_text(row, "matrix"));
    const auto value = row.find(rule.measure);
    if (row.at("status") == "ok" && value != row.end() && value->second.is_number()) {
      cell.value = value->second.get<double>();
    } else {
      cell.status = row.at("status") == "ok" ? "-" : cell_text(row, "status");
    }
  }

  const bool larger = larger_is_better(rule.measure);
  pivot.wins.resize(pivot.series.size(), 0);
  std::set<std::string> matrices;
  for (PivotLine& line : pivot.lines) {
    mark(line, larger, baseline);
    matrices.insert(cell_text(line.keys, "matrix"));
    for (std::size_t s = 0; s < line.cells.size(); ++s) pivot.wins[s] += line.cells[s].best ? 1 : 0;
  }
  // Over the matrices of a setting; of a single matrix over all its settings.
  std::vector<std::pair<Row, std::vector<const PivotLine*>>> groups;
  for (const PivotLine& line : pivot.lines) {
    Row setting = line.keys;
    setting.erase("matrix");
    if (matrices.size() == 1) setting.clear();
    auto group = std::ranges::find_if(groups, [&](const auto& g) { return g.first == setting; });
    if (group == groups.end()) {
      groups.push_back({setting, {}});
      group = groups.end() - 1;
    }
    group->second.push_back(&line);
  }
  for (const auto& [setting, lines] : groups) {
    if (lines.size() < 2) continue;
    std::optional<PivotLine> mean = mean_of(lines);
    if (!mean) continue;
    mean->keys = setting;
    mean->keys["matrix"] = mean->lines == static_cast<int>(lines.size())
                               ? std::string("geometric mean")
                               : fmt::format("geometric mean of {}", mean->lines);
    mark(*mean, larger, baseline);
    pivot.means.push_back(std::move(*mean));
  }
  return pivot;
}

std::string to_text(const Pivot& pivot) {
  std::vector<Row> rows;
  for (const auto* lines : {&pivot.lines, &pivot.means})
    for (const PivotLine& line : *lines) rows.push_back(row_of(pivot, line));
  if (pivot.series.size() > 1 && pivot.lines.size() > 1) {
    Row& wins = rows.emplace_back();
    wins["matrix"] = fmt::format("best of {}", pivot.lines.size());
    for (std::size_t s = 0; s < pivot.series.size(); ++s)
      // In line with the numbers: a cell ends with the mark and the speed.
      wins[pivot.series[s]] =
          fmt::format("{} {}", pivot.wins[s], pivot.rule.baseline.empty() ? "" : "        ");
  }
  std::vector<std::string> columns = pivot.rule.keys;
  columns.insert(columns.end(), pivot.series.begin(), pivot.series.end());
  return text_table(rows, columns, {pivot.series.begin(), pivot.series.end()});
}

Json to_json(const Pivot& pivot) {
  Json json{{"measure", pivot.rule.measure},
            {"larger_is_better", larger_is_better(pivot.rule.measure)},
            {"series", pivot.series},
            {"lines", Json::array()},
            {"means", Json::array()}};
  if (!pivot.rule.baseline.empty()) json["baseline"] = pivot.rule.baseline;
  for (const PivotLine& line : pivot.lines) json["lines"].push_back(line_json(pivot, line));
  for (const PivotLine& line : pivot.means) {
    json["means"].push_back(line_json(pivot, line));
    json["means"].back()["lines"] = line.lines;
  }
  for (std::size_t s = 0; s < pivot.series.size(); ++s)
    json["best"][pivot.series[s]] = pivot.wins[s];
  return json;
}

}  // namespace tessera
