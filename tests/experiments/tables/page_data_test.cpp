// The data of a page, from planted records.
#include "experiments/tables/page_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "tests/planted_records.hpp"

namespace tessera {
namespace {

/// The report on planted records; the config's file is gone, so it is written again.
Report planted_report(const TemporaryFolder& folder, const std::string& rest) {
  PlantedExperiment planted = planted_experiment(rest);
  planted.config.path = folder / "c.toml";
  write_text(planted.config.path, "the text of the config");
  return {planted.config, "out/c", planted.records, planted.rows};
}

constexpr const char* kPage = R"(
[table]
columns = ["matrix", "time_us"]
where = { backend = "model", kernel = "acc_spmm" }

[[figure]]
id = "times"
kind = "bars"
x = "matrix"
y = "time_us"
series = "kernel"

[[figure]]
id = "measured"
kind = "bars"
x = "matrix"
y = "p5_us"
series = "kernel"

[[expect]]
name = "slower"
source = "planted"
column = "time_us"
statistic = "max"
value = 96
tolerance = 0.01
)";

TEST_CASE("the page of an experiment has its config, table, figures and verdicts") {
  const TemporaryFolder folder;
  const Json page = page_data(planted_report(folder, kPage));
  CHECK(page["id"] == "c");
  CHECK(page["config"] == "the text of the config");
  CHECK(page["planned"] == 8);
  CHECK(page["rows"].size() == 8);
  CHECK(page["records"].size() == 8);

  CHECK(page["table"]["columns"] == Json{"matrix", "time_us"});
  REQUIRE(page["table"]["rows"].size() == 2);
  const Json& row = page["rows"][page["table"]["rows"][1].get<std::size_t>()];
  CHECK(row["matrix"] == "absent_b");
  CHECK(row["time_us"] == 32);

  REQUIRE(page["figures"].size() == 1);
  CHECK(page["figures"][0]["id"] == "times");
  CHECK(page["empty_figures"][0]["id"] == "measured");

  const Json& expectation = page["expectations"][0];
  CHECK(expectation["verdict"] == "met");
  CHECK(expectation["found"] == 96);
  CHECK(expectation["trend"] == "within");
}

TEST_CASE("the points of a figure name their records") {
  const TemporaryFolder folder;
  const Report report = planted_report(folder, kPage);
  const Json page = page_data(report);
  const Json& point = page["figures"][0]["series"][0]["points"][0];
  const std::string id = point["point"];
  CHECK(id.starts_with("result of "));
  const Json& records = page["records"];
  const auto found =
      std::ranges::find_if(records, [&](const Json& r) { return r["point_id"] == id; });
  REQUIRE(found != records.end());
  CHECK((*found)["prediction"]["time_us"] == point["y"]);
}

TEST_CASE("every number of a row has its origin, and settings have none") {
  const TemporaryFolder folder;
  const Json page = page_data(planted_report(folder, ""));
  for (std::size_t at = 0; at < page["rows"].size(); ++at) {
    const Json& row = page["rows"][at];
    const Json& origins = page["origins"][page["groups"][at].get<std::size_t>()];
    CHECK(origins["nnz"] == "counted");
    CHECK(origins[row.contains("time_us") ? "time_us" : "smape_pct"] == row["origin"]);
    CHECK_FALSE(origins.contains("n"));
  }
}

TEST_CASE("a joined number keeps its own origin beside numbers of another") {
  const TemporaryFolder folder;
  const Json page = page_data(planted_report(folder, R"(
[[join]]
name = "predicted"
from = { backend = "model" }
columns = ["time_us"]
on = ["matrix", "kernel", "n"]
)"));
  int joined = 0;
  for (std::size_t at = 0; at < page["rows"].size(); ++at) {
    if (!page["rows"][at].contains("predicted_time_us")) continue;
    const Json& origins = page["origins"][page["groups"][at].get<std::size_t>()];
    CHECK(origins["predicted_time_us"] == "modelled");
    CHECK(origins["smape_pct"] == "emulated");
    ++joined;
  }
  CHECK(joined == 4);
}

TEST_CASE("records without their config are named by their folder") {
  const TemporaryFolder folder;
  const PlantedExperiment planted = planted_experiment("");
  std::string lines;
  for (const Json& record : planted.records.points) lines += record.dump() + "\n";
  std::filesystem::create_directories(folder / "h200");
  write_text(folder / "h200/records.jsonl", lines);
  for (const char* given : {"h200", "h200/", "h200/records.jsonl"}) {
    const Report report = report_on_records(folder / given);
    CHECK(report.config.id == "h200");
    CHECK(report.rows.size() == 8);
    CHECK_FALSE(page_data(report).contains("expectations"));
  }
}

}  // namespace
}  // namespace tessera
