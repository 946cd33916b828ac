#include "experiments/counters/ncu_report.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

/// The cells of a line of CSV; a quoted cell may hold commas, and "" for a quote.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

/// The table in the report: names, units, launches.
std::vector<std::vector<std::string>> table_of(const std::string& text) {
  std::vector<std::vector<std::string>> table;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool begins = line.starts_with("\"ID\",") || line.starts_with("ID,");
    if (line.starts_with("==") || (table.empty() && !begins)) continue;
    if (!line.empty()) table.push_back(cells_of(line));
  }
  require(table.size() >= 2, "ncu's report has no table: {}", text.substr(0, 1000));
  for (const auto& row : table)
    require(row.size() == table[0].size(), "ncu's report has a line of {} cells under {} names",
            row.size(), table[0].size());
  return table;
}

/// "1,234.5": ncu may group digits by commas.
double number_of(const std::string& metric, std::string cell) {
  std::erase(cell, ',');
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  require(error == std::errc() && end == cell.data() + cell.size(),
          "ncu's report has no number for {}, but '{}'", metric, cell);
  return value;
}

/// Numbers in units that ncu chose for readers would be mistaken by factors of 1000.
void check_unit(const std::string& metric, const std::string& unit) {
  static const std::set<std::string> scaled{
      "us", "usecond", "ms", "msecond", "s", "second", "Kbyte", "Mbyte", "Gbyte", "Tbyte", "KByte"};
  require(!scaled.contains(unit), "ncu's report has {} in {}, not in its base unit", metric, unit);
}

/// ncu leaves out what a chip does not have; its report has hundreds of other names.
std::string unknown_metric(const std::string& metric,
                           const std::vector<std::vector<std::string>>& table) {
  const auto chip = std::ranges::find(table[0], "CC");
  const bool known = chip != table[0].end() && table.size() > 2;
  return fmt::format(
      "ncu found no metric {} on the chip{}: `tessera counters check {}` names the nearest", metric,
      known ? " of compute capability " + table[2][chip - table[0].begin()] : "", metric);
}

}  // namespace

std::vector<LaunchCounts> read_ncu_report(const std::string& text,
                                          const std::vector<std::string>& metrics) {
  const auto table = table_of(text);
  const std::vector<std::string>& names = table[0];
  std::vector<LaunchCounts> launches(table.size() - 2);
  for (const std::string& metric : metrics) {
    const auto found = std::ranges::find(names, metric);
    require(found != names.end(), "{}", unknown_metric(metric, table));
    const auto column = static_cast<std::size_t>(found - names.begin());
    check_unit(metric, table[1][column]);
    for (std::size_t i = 0; i < launches.size(); ++i)
      launches[i][metric] = number_of(metric, table[i + 2][column]);
  }
  return launches;
}

}  // namespace tessera
