#include "experiments/expectation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

double statistic(const std::string& name, std::vector<double> values) {
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  if (name == "min") return values.front();
  if (name == "max") return values.back();
  if (name == "mean") return std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (name == "median") return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return std::exp(logs / n);  // geomean
}

/// Ratios pair rows of the same matrix and n.
std::string partner_key(const Row& row) {
  return cell_text(row, "matrix") + "|" + cell_text(row, "n");
}

double number(const Expect& expect, const Row& row) {
  require(row.at(expect.column).is_number(), "{}: [[expect]] is about numbers, and '{}' holds {}",
          expect.place, expect.column, row.at(expect.column).dump());
  return row.at(expect.column).get<double>();
}

/// What to divide by, by partner_key.
std::map<std::string, double> partners_of(const Expect& expect, const std::vector<Row>& rows) {
  std::map<std::string, double> partners;
  if (expect.relative_to.empty()) return partners;
  for (const Row& row : select(rows, expect.relative_to)) {
    if (!row.contains(expect.column)) continue;
    require(partners.try_emplace(partner_key(row), number(expect, row)).second,
            "{}: relative_to holds for two rows of matrix {}, n = {}: narrow it", expect.place,
            cell_text(row, "matrix"), cell_text(row, "n"));
  }
  return partners;
}

std::vector<double> values_of(const Expect& expect, const std::vector<Row>& rows) {
  const std::map<std::string, double> partners = partners_of(expect, rows);
  std::vector<double> values;
  for (const Row& row : select(rows, expect.where)) {
    if (!row.contains(expect.column)) continue;
    const double value = number(expect, row);
    if (expect.relative_to.empty())
      values.push_back(value);
    else if (const auto partner = partners.find(partner_key(row)); partner != partners.end())
      values.push_back(value / partner->second);
  }
  return values;
}

}  // namespace

ExpectationResult judge(const Expect& expect, const std::vector<Row>& rows, const Config& config) {
  check_column(expect.column, rows, config, expect.place);
  for (const Settings* settings : {&expect.where, &expect.relative_to})
    for (const auto& [column, setting] : *settings)
      check_column(column, rows, config, setting.place);

  const std::vector<double> values = values_of(expect, rows);
  ExpectationResult result{expect.name, expect.source, expect.value, 0, values.size(), false, ""};
  if (values.empty()) {
    result.text = fmt::format("{}: no rows to judge it by ({})", expect.name, expect.source);
    return result;
  }
  result.found = statistic(expect.statistic, values);
  const char* relation = "about";
  if (expect.trend == "at_least") {
    relation = "at least";
    result.met = result.found >= expect.value;
  } else if (expect.trend == "at_most") {
    relation = "at most";
    result.met = result.found <= expect.value;
  } else {
    result.met =
        std::fabs(result.found - expect.value) <= expect.tolerance * std::fabs(expect.value);
  }
  result.text = fmt::format("{}: {} {} over {} is {:.4g}, expected {} {:.4g} ({}): {}", expect.name,
                            expect.statistic, expect.column, values.size(), result.found, relation,
                            expect.value, expect.source, result.met ? "met" : "NOT met");
  return result;
}

}  // namespace tessera
