#include "experiments/tables/report.hpp"

#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "experiments/tables/figure_data.hpp"
#include "experiments/tables/table.hpp"
#include "formats/base/check.hpp"
#include "formats/base/shipped_files.hpp"
#include "formats/base/suggest.hpp"

extern char** environ;

namespace tessera {
namespace {

const std::vector<std::string> kUsualColumns{"matrix",  "n",         "reorder",    "kernel",
                                             "backend", "device",    "status",     "time_us",
                                             "gflops",  "smape_pct", "bound_ratio"};

}  // namespace

int run_program(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, 2, 1);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  require(failed == 0, "{} cannot be started", arguments.front());
  int status = 0;
  waitpid(child, &status, 0);
  require(WIFEXITED(status), "{} was killed", fmt::join(arguments, " "));
  return WEXITSTATUS(status);
}

namespace {

/// $TESSERA_PYTHON, else the first python3 that has matplotlib.
std::string find_python() {
  if (const char* chosen = std::getenv("TESSERA_PYTHON")) return chosen;
  for (const char* candidate : {"python3", "/usr/bin/python3"}) {
    const std::string test = fmt::format("{} -c 'import matplotlib' 2>/dev/null", candidate);
    if (std::system(test.c_str()) == 0) return candidate;
  }
  throw Error("figures need a python3 with matplotlib: install it, or name one in $TESSERA_PYTHON");
}

/// The backends of a config, and those that only the records know.
std::vector<std::string> backends_of(const RecordSet& records, std::vector<std::string> backends) {
  for (const Json& record : records.points) {
    const std::string backend = record.at("params").at("backend");
    if (std::ranges::find(backends, backend) == backends.end()) backends.push_back(backend);
  }
  return backends;
}

struct ReportTable {
  std::vector<Row> rows;
  std::vector<std::string> columns;
};

ReportTable table_of(const Report& report) {
  if (!report.config.table.empty()) {
    const Table& table = report.config.table.front();
    for (const std::string& column : table.columns)
      check_column(column, report.rows, report.config, table.place);
    return {select(report.rows, table.where), table.columns};
  }
  ReportTable usual{report.rows, kUsualColumns};
  std::erase_if(usual.rows, [](const Row& row) { return row.contains("unfolded"); });
  return usual;
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

void write_table(const Report& report) {
  const ReportTable table = table_of(report);
  write_file(report.folder + "/table.csv", csv_table(table.rows, table.columns));
}

void print_table(const Report& report) {
  write_table(report);
  const ReportTable table = table_of(report);
  fmt::print("{}", text_table(table.rows, table.columns));
}

Json table_json(const Report& report) {
  const ReportTable table = table_of(report);
  Json list = Json::array();
  for (const Row& row : table.rows) {
    Json object = Json::object();
    for (const std::string& column : table.columns)
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

std::vector<std::string> draw_figures(const Report& report, const std::string& folder,
                                      const std::vector<std::string>& only) {
  const std::string provenance = provenance_text(report.records);
  std::vector<std::string> known;
  for (const Figure& figure : report.config.figures) known.push_back(figure.id);
  for (const std::string& id : only)
    require(std::ranges::find(known, id) != known.end(), "{}: {}", report.config.path,
            unknown_name_message("figure", id, known));

  std::string python;  // looked for when there is something to draw
  std::vector<std::string> drawn;
  std::string empty;  // the last one's message
  for (const Figure& figure : report.config.figures) {
    if (!only.empty() && std::ranges::find(only, figure.id) == only.end()) continue;
    const std::string base = folder + "/" + figure.id;
    FigureData data;
    try {
      data = make_figure_data(figure, report.rows, report.config, provenance);
    } catch (const NoRows& none) {
      if (!only.empty()) throw;
      empty = none.what();
      fmt::print(stderr, "note: {}\n", empty);
      continue;
    }
    write_file(base + ".json", data.json.dump(2));
    write_file(base + ".csv", data.csv);
    if (python.empty()) python = find_python();
    const std::string script = shipped_path("notebooks/" + figure.kind + ".py");
    require(run_program({python, "-B", script, base + ".json"}) == 0, "{} {}.json failed", script,
            base);
    drawn.push_back(base + ".pdf");
    drawn.push_back(base + ".png");
  }
  require<NoRows>(empty.empty() || !drawn.empty(), "{}", empty);
  return drawn;
}

}  // namespace tessera
