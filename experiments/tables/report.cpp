#include "experiments/tables/report.hpp"

#include <algorithm>

#include "experiments/tables/expectation.hpp"
#include "experiments/tables/table.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

const std::vector<std::string> kUsualColumns{"matrix",  "n",         "reorder",    "kernel",
                                             "backend", "device",    "status",     "time_us",
                                             "gflops",  "smape_pct", "bound_ratio"};

}  // namespace

Report read_report(const Config& config, const std::string& folder) {
  Report report{config, folder, read_records(folder), {}};
  std::vector<std::string> backends = config.backends;
  for (const Json& record : report.records.points) {
    const std::string backend = record.at("params").at("backend");
    if (std::ranges::find(backends, backend) == backends.end()) backends.push_back(backend);
  }
  report.rows = make_rows(make_plan(config, backends), report.records, config);
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

void print_table(const Report& report, bool as_json) {
  const auto [columns, rows] = result_table(report);
  write_file(report.folder + "/table.csv", csv_table(rows, columns));
  if (!as_json) {
    fmt::print("{}", text_table(rows, columns));
    return;
  }
  Json list = Json::array();
  for (const Row& row : rows) {
    Json object = Json::object();
    for (const std::string& column : columns)
      if (row.contains(column)) object[column] = row.at(column);
    list.push_back(std::move(object));
  }
  fmt::print("{}\n", list.dump(2));
}

bool judge_all(const Report& report) {
  bool all_met = true;
  for (const Expect& expect : report.config.expects) {
    const ExpectationResult result = judge(expect, report.rows, report.config);
    fmt::print(stderr, "{}\n", result.text);
    all_met &= result.met;
  }
  return all_met;
}

}  // namespace tessera
