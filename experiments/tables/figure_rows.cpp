#include "experiments/tables/figure_rows.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "experiments/tables/distinct_texts.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

std::string partner_key(const Row& row) {
  Json key = Json::array();
  for (const char* column : {"matrix", "n", "backend", "device", "l2"})
    key.push_back(cell_text(row, column));
  return key.dump();
}

/// The index of a label among those of the bins that it comes from, or of a case among those of the
/// config; 0 where there are neither.
std::size_t place_of_label(const std::string& column, const Row& row, const Config& config) {
  if (column == "case") {
    const auto named =
        std::ranges::find(config.cases, cell_text(row, column), &NamedSettings::name);
    return named - config.cases.begin();
  }
  const auto derive = std::ranges::find(config.derives, column, &Derive::name);
  if (derive == config.derives.end() || derive->labels.empty()) return 0;
  return std::ranges::find(derive->labels, cell_text(row, column)) - derive->labels.begin();
}

}  // namespace

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

std::vector<Row> relative_rows(const Figure& figure, const RowRefs& drawn,
                               const std::vector<Row>& all, const Config& config) {
  for (const auto& [column, setting] : figure.relative_to)
    check_column(column, all, config, setting.place);
  std::map<std::string, double> partners;
  for (const Row* row : select_refs(all, figure.relative_to)) {
    const auto y = row->find(figure.y);
    if (y == row->end() || !y->second.is_number()) continue;
    require(partners.try_emplace(partner_key(*row), y->second.get<double>()).second,
            "{}: relative_to holds for two rows of matrix {}, n = {}: narrow it", figure.place,
            cell_text(*row, "matrix"), cell_text(*row, "n"));
  }
  std::vector<Row> rows;
  for (const Row* row : drawn) {
    const auto partner = partners.find(partner_key(*row));
    if (partner == partners.end() || partner->second == 0) continue;
    rows.push_back(*row);
    rows.back()[figure.y] = row->at(figure.y).get<double>() / partner->second;
  }
  return rows;
}

std::vector<Row> statistic_rows(const Figure& figure, const RowRefs& drawn, const Config& config) {
  std::vector<Row> merged;
  std::vector<std::vector<double>> values;
  DistinctTexts panels(figure.panel), series(figure.series), xs(figure.x);
  std::map<std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t>, std::size_t>
      places;
  for (const Row* row : drawn) {
    const auto [place, is_new] =
        places.try_emplace({value_origin(*row, figure.y, config), panels.number(*row),
                            series.number(*row), xs.number(*row)},
                           merged.size());
    if (is_new) {
      merged.push_back(*row);
      merged.back().erase("point_id");
      values.emplace_back();
    }
    values[place->second].push_back(row->at(figure.y).get<double>());
  }
  for (std::size_t i = 0; i < merged.size(); ++i)
    merged[i][figure.y] = statistic(figure.statistic, values[i]);
  return merged;
}

void order_by_labels(const Figure& figure, std::vector<Row>& drawn, const Config& config) {
  for (const std::string* column : {&figure.x, &figure.series, &figure.panel})
    std::ranges::stable_sort(drawn, {},
                             [&](const Row& row) { return place_of_label(*column, row, config); });
}

}  // namespace tessera
