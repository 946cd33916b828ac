#include "experiments/tables/expectation.hpp"

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

double number(const Expect& expect, const Row& row, const std::string& column) {
  require(row.at(column).is_number(), "{}: [[expect]] is about numbers, and '{}' holds {}",
          expect.place, column, row.at(column).dump());
  return row.at(column).get<double>();
}

/// The divisors by partner_key.
std::map<std::string, double> partners_of(const Expect& expect, const std::vector<Row>& rows) {
  std::map<std::string, double> partners;
  if (expect.relative_to.empty()) return partners;
  for (const Row& row : select(rows, expect.relative_to)) {
    if (!row.contains(expect.column)) continue;
    require(partners.try_emplace(partner_key(row), number(expect, row, expect.column)).second,
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
    const double value = number(expect, row, expect.column);
    if (expect.relative_to.empty())
      values.push_back(value);
    else if (const auto partner = partners.find(partner_key(row)); partner != partners.end())
      values.push_back(value / partner->second);
  }
  return values;
}

/// Places in ascending order, from 1 on; equal values share the mean of theirs.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    for (std::size_t i = first; i < last; ++i)
      ranks[order[i]] = static_cast<double>(first + last + 1) / 2;
  }
  return ranks;
}

/// Spearman's: the correlation of the ranks. 0 where one side does not vary.
double rank_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const std::vector<double> x_ranks = ranks(x), y_ranks = ranks(y);
  const double mean = static_cast<double>(x.size() + 1) / 2;
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x_ranks[i] - mean) * (x_ranks[i] - mean);
    yy += (y_ranks[i] - mean) * (y_ranks[i] - mean);
    xy += (x_ranks[i] - mean) * (y_ranks[i] - mean);
  }
  return xx == 0 || yy == 0 ? 0 : xy / std::sqrt(xx * yy);
}

/// Over the rows that have both columns, which are counted.
double correlation_of(const Expect& expect, const std::vector<Row>& rows, std::size_t& count) {
  std::vector<double> x, y;
  for (const Row& row : select(rows, expect.where)) {
    if (!row.contains(expect.column) || !row.contains(expect.with)) continue;
    x.push_back(number(expect, row, expect.with));
    y.push_back(number(expect, row, expect.column));
  }
  count = x.size();
  return rank_correlation(x, y);
}

}  // namespace

ExpectationResult judge(const Expect& expect, const std::vector<Row>& rows, const Config& config) {
  check_column(expect.column, rows, config, expect.place);
  for (const Settings* settings : {&expect.where, &expect.relative_to})
    for (const auto& [column, setting] : *settings)
      check_column(column, rows, config, setting.place);
  const bool correlates = expect.statistic == "rank_correlation";
  if (correlates) check_column(expect.with, rows, config, expect.place);

  ExpectationResult result{expect.name, expect.source, expect.value, 0, 0, false, ""};
  if (correlates) {
    result.found = correlation_of(expect, rows, result.values);
  } else {
    const std::vector<double> values = values_of(expect, rows);
    result.values = values.size();
    if (!values.empty()) result.found = statistic(expect.statistic, values);
  }
  if (result.values == 0) {
    result.text = fmt::format("{}: no rows to judge it by ({})", expect.name, expect.source);
    return result;
  }
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
  result.text = fmt::format("{}: {} {}{} over {} is {:.4g}, expected {} {:.4g} ({}): {}",
                            expect.name, expect.statistic, expect.column,
                            correlates ? " with " + expect.with : "", result.values, result.found,
                            relation, expect.value, expect.source, result.met ? "met" : "NOT met");
  return result;
}

}  // namespace tessera
