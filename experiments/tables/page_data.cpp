#include "experiments/tables/page_data.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "experiments/records/columns.hpp"
#include "experiments/records/skips.hpp"
#include "experiments/tables/expectation.hpp"
#include "experiments/tables/figure_data.hpp"
#include "experiments/tables/row_steps.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

/// The place of a row in the report, while rows are selected.
constexpr const char* kPlace = "#";

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  require(file.good(), "{}: cannot be read", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// True for what the config chose; its numbers have no origin.
bool is_setting(const std::string& column) {
  const Column* known = find_column(column);
  return column.find('.') != std::string::npos ||
         (known != nullptr && std::string_view(known->pointer).starts_with("/params/"));
}

/// The rows of one group have equal origins in equal columns.
std::string origin_group(const Row& row, const Config& config) {
  std::string group = cell_text(row, "origin");
  for (const Join& join : config.joins) {
    group += '|';
    group += cell_text(row, joined_name(join, "origin"));
  }
  return group;
}

void add_rows(const std::vector<Row>& rows, const Config& config, Json& page) {
  std::map<std::string, std::size_t> known;
  Json cells = Json::array(), groups = Json::array();
  std::vector<std::map<std::string, std::string>> origins;
  for (const Row& row : rows) {
    const std::size_t group =
        known.try_emplace(origin_group(row, config), known.size()).first->second;
    if (group == origins.size()) origins.emplace_back();
    for (const auto& [column, value] : row)
      if (value.is_number() && !is_setting(column) && !origins[group].contains(column))
        origins[group][column] = value_origin(row, column, config);
    cells.push_back(row);
    groups.push_back(group);
  }
  page["rows"] = std::move(cells);
  page["groups"] = std::move(groups);
  page["origins"] = origins;
}

/// The rows of the [table] by their places.
Json table_json(const Table& table, std::vector<Row> rows, const Config& config) {
  for (const std::string& column : table.columns) check_column(column, rows, config, table.place);
  for (std::size_t place = 0; place < rows.size(); ++place) rows[place][kPlace] = place;
  Json places = Json::array();
  for (const Row& row : select(rows, table.where)) places.push_back(row.at(kPlace));
  return {{"columns", table.columns}, {"rows", places}};
}

Json expectation_json(const Expect& expect, const ExpectationResult& result) {
  Json json = to_json(result);
  json["statistic"] = expect.statistic;
  json["column"] = expect.column;
  json["trend"] = expect.trend.empty() ? "within" : expect.trend;
  if (!expect.with.empty()) json["with"] = expect.with;
  if (expect.trend.empty()) json["tolerance"] = expect.tolerance;
  if (!expect.relative_to.empty()) json["ratio"] = true;
  return json;
}

/// Every cause to skip points, as runs tell it.
Json skips_json(const RecordSet& records) {
  SkipCount count;
  for (const Json& record : records.points)
    if (record.value("status", "") == "skipped") count.add(skip_of(record));
  Json skips = Json::array();
  for (const SkipGroup& group : count.groups()) skips.push_back(group.text());
  return skips;
}

void add_figures(const Report& report, Json& page) {
  const std::string provenance = provenance_text(report.records);
  page["figures"] = Json::array();
  page["empty_figures"] = Json::array();
  for (const Figure& figure : report.config.figures) {
    try {
      page["figures"].push_back(
          make_figure_data(figure, report.rows, report.config, provenance).json);
    } catch (const NoRows& none) {
      page["empty_figures"].push_back({{"id", figure.id}, {"title", figure.title}});
    }
  }
}

}  // namespace

Json page_data(const Report& report) {
  const Config& config = report.config;
  Json page{{"id", config.id},
            {"title", config.title},
            {"folder", report.folder},
            {"environments", report.records.environments},
            {"skips", skips_json(report.records)},
            {"records", report.records.points}};
  std::vector<Row> rows = report.rows;
  std::erase_if(rows, [](const Row& row) { return row.contains("unfolded"); });
  add_rows(rows, config, page);
  if (config.path.empty()) return page;

  page["path"] = config.path;
  page["hash"] = config.hash;
  page["config"] = text_of(config.path);
  page["planned"] = make_plan(config).entries.size();
  if (!config.table.empty()) page["table"] = table_json(config.table.front(), rows, config);
  add_figures(report, page);
  page["expectations"] = Json::array();
  const std::vector<ExpectationResult> results = judge_all(report);
  for (std::size_t i = 0; i < results.size(); ++i)
    page["expectations"].push_back(expectation_json(config.expects[i], results[i]));
  return page;
}

Report report_on_records(const std::string& folder_or_file) {
  Report report{{}, folder_or_file, read_records(folder_or_file), {}};
  // A file is called records.jsonl; its folder has the name.
  std::filesystem::path path = std::filesystem::canonical(folder_or_file);
  if (!std::filesystem::is_directory(path)) path = path.parent_path();
  report.config.id = path.filename().string();
  report.rows = record_rows(report.records);
  return report;
}

}  // namespace tessera
