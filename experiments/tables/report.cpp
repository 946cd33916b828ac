#include "experiments/tables/report.hpp"

#include <algorithm>
#include <set>

#include "experiments/tables/figure_data.hpp"
#include "experiments/tables/table.hpp"
#include "experiments/tables/write_file.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

const std::vector<std::string> kUsualColumns{"matrix",  "n",         "reorder",    "kernel",
                                             "backend", "device",    "status",     "time_us",
                                             "gflops",  "smape_pct", "bound_ratio"};

/// The backends of a config, and those that only the records know.
std::vector<std::string> backends_of(const RecordSet& records, std::vector<std::string> backends) {
  for (const Json& record : records.points) {
    const std::string backend = record.at("params").at("backend");
    if (std::ranges::find(backends, backend) == backends.end()) backends.push_back(backend);
  }
  return backends;
}

/// The config as its file has it. One that only --set makes whole stands for itself.
Config as_written(const Config& config) {
  try {
    return load_config(config.path);
  } catch (const Error&) {
    return config;
  }
}

}  // namespace

Report read_report(const Config& config, const std::string& folder) {
  Report report{config, folder, read_records(folder), {}};
  report.rows = make_rows(make_plan(config, backends_of(report.records, config.backends)),
                          report.records, config);
  return report;
}

Report read_figure_report(const ConfigRequest& request, const std::string& folder,
                          const std::vector<std::string>& only) {
  RecordedConfig opened = open_recorded_config(request, folder);
  Report report{std::move(opened.config), folder, {}, {}};
  report.records.environments = opened.index.environments;
  IndexedLines lines(opened.index);
  std::set<std::uint32_t> machines;
  for (const IndexedRecord& record : opened.index.points)
    if (machines.insert(record.machine).second)
      report.records.points.push_back(Json::parse(lines.line(record)));
  report.rows = make_wanted_rows(opened.plan, opened.index, report.config,
                                 wanted_by_figures(report.config, only));
  return report;
}

ResultTable result_table(const Report& report) {
  if (report.config.table.empty()) {
    ResultTable usual{kUsualColumns, report.rows};
    std::erase_if(usual.rows, [](const Row& row) { return row.contains("unfolded"); });
    return usual;
  }
  const Table& table = report.config.table.front();
  for (const std::string& column : table.columns)
    check_column(column, report.rows, report.config, table.place);
  return {table.columns, select(report.rows, table.where)};
}

void write_table(const Report& report) {
  const auto [columns, rows] = result_table(report);
  write_file(report.folder + "/table.csv", csv_table(rows, columns));
}

void print_table(const Report& report) {
  write_table(report);
  const ResultTable table = result_table(report);
  const auto has_values = [&](const std::string& column) {
    return table.rows.empty() || std::ranges::any_of(table.rows, [&](const Row& row) {
             return !cell_text(row, column).empty();
           });
  };
  std::vector<std::string> shown, empty;
  for (const std::string& column : table.columns)
    (has_values(column) ? shown : empty).push_back(column);
  fmt::print("{}", text_table(table.rows, shown));
  if (!empty.empty())
    fmt::print(stderr, "columns without a value, not shown: {}\n", fmt::join(empty, ", "));
}

Json table_json(const Report& report) {
  const auto [columns, rows] = result_table(report);
  Json list = Json::array();
  for (const Row& row : rows) {
    Json object = Json::object();
    for (const std::string& column : columns)
      if (row.contains(column)) object[column] = row.at(column);
    list.push_back(std::move(object));
  }
  return list;
}

std::vector<ExpectationResult> judge_all(const Report& report) {
  std::vector<ExpectationResult> results;
  if (report.config.expects.empty()) return results;
  const Config written = as_written(report.config);
  const std::vector<Row> planned =
      planned_rows(make_plan(written, backends_of(report.records, written.backends)));
  for (const Expect& expect : report.config.expects)
    results.push_back(
        judge(expect, report.rows, report.config, population_of(expect, planned, written)));
  return results;
}

}  // namespace tessera
