// Records: how they are written, read back and merged.

#include "experiments/records/record.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "experiments/records/columns.hpp"
#include "experiments/records/record_set.hpp"
#include "formats/base/shipped_files.hpp"

namespace tessera {
namespace {

TimePart some_time() {
  return {{3.5, 3, 4, 2.5, 3.25, 0.5, 20, 4}, "warm", "graph", 2,
          "another process is on the GPU",    2};
}

/// A record with every part that a product can have.
Record whole_record() {
  Record record{.params = {{"backend", "gpu"}},
                .params_hash = "p",
                .point_id = "i",
                .finished_at = "2026-01-01T00:00:00Z",
                .status = "wrong"};
  record.reason = "why";
  record.skip = {"order", "rcm"};
  record.origin = "measured";
  record.attempt_s = 0.5;
  record.env_id = record.experiment = record.config_hash = "x";
  record.versions = {1, 2, 3, 4, {{"csr_spmm", 1}}};
  record.matrix = record.right = MatrixPart{"a", "h", "s", "auto", 1, 2, 3, true};
  record.prep =
      PreparationPart{1.5, true, 2.5, 4, false, true, 7,   "unknown", "rcm", 0.5,         0.25,
                      1.5, 2.5,  8,   4, 4,     2,    1.5, 0.5,       0.25,  {{{"a", 8}}}};
  record.advice = Json{{"kernel", "csr_spmm"}};
  record.analysis = Figures{{"floor_us", 1.5}, {"name", std::string("low")}, {"is", true}};
  record.statistics = Figures{{"tiles_8x8", std::int64_t{3}}};
  BackendFindings& found = record.found;
  found.time = found.time_pool = found.time_again = some_time();
  found.unpermute = RestorePart{some_time().summary, "cpu", 2};
  found.clocks = ClocksPart{{1980u, 3201u, 0ull}, {1980u, {}, {}}};
  found.emulate_s = 0.5;
  found.prediction = PredictionPart{1.5, "L2", {{{"L2", 1.5, "because"}}}};
  found.simulation = SimulationPart{{{"L2", 1.5, "because"}},
                                    {{"memory", 0.5}},
                                    1.5,
                                    2,
                                    "registers",
                                    0.5,
                                    1.5,
                                    0.5,
                                    0.5,
                                    1.5,
                                    2.5,
                                    3.5,
                                    4.5,
                                    {{{"dram__bytes_read.sum", 2.0}}}};
  found.work_description = WorkPart{1, 2, 3, 4, 5, 6};
  found.winner = "alg2";
  found.candidates_us = std::map<std::string, double>{{"alg2", 1.5}};
  found.counters = CounterValues{};
  for (const Column& column : record_columns())
    if (const std::string at = column.pointer; at.starts_with("/counters/"))
      (*found.counters)[at.substr(std::string("/counters/").size())] = 1.5;
  found.counters_source = found.counters_l2 = found.counters_missing = "x";
  found.peak_bytes = 7;
  found.stages = std::vector<StagePart>{{"count", 1.5}};
  record.gflops = record.pool_gflops = record.nnz_per_s = record.compression = 1.5;
  record.products = record.nnz_c = 3;
  record.predicted_us = std::map<std::string, double>{{"row_spgemm", 1.5}};
  ProductCheck check;
  check.smape_fp32_pct = 0.5;
  check.ulp_histogram = {{0.5}, {3}};
  check.by_condition = {{1.0}, {3}, {0.5}, {0.5}, {0.5}};
  check.worst = WorstElementPart{1, 2, 0.5, "nan", 0.25, "row 1"};
  check.missing = check.extra = 1;
  record.check = check;
  record.bits = BitComparison{9, 1, DifferentElement{1, 2, 0.5, "absent"}};
  return record;
}

std::string error_of(const Json& json) {
  try {
    record_from_json(json);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("a record keeps every part through its JSON form") {
  const Json json = to_json(whole_record());

  CHECK(to_json(record_from_json(Json::parse(json.dump()))) == json);
  CHECK(json["schema"] == kRecordSchema);
  CHECK(json["type"] == "point");
}

TEST_CASE("the JSON form leaves out the parts that a record does not have") {
  const Json json = to_json(Record{});

  CHECK(json.size() == 7);  // schema, type, params, two identities, finished_at, status
  CHECK(to_json(record_from_json(json)) == json);
}

TEST_CASE("rows of C that have stayed are recorded as a time of 0 alone") {
  Record record;
  record.found.unpermute = RestorePart{};

  const Json json = to_json(record);

  CHECK(json["unpermute"] == Json{{"median_us", 0.0}});
  CHECK_FALSE(record_from_json(json).found.unpermute->summary);
}

TEST_CASE("a record is refused with the key that is missing, unknown or of the wrong type") {
  const Json good = to_json(whole_record());
  const auto changed = [&](const char* pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return error_of(json);
  };

  CHECK(error_of(good) == "no error");
  CHECK(changed("/schema", 2).starts_with("a record of schema 2"));
  CHECK(changed("/type", "env").starts_with("a record of type \"env\""));
  CHECK(changed("/statu", "ok").find("unknown key 'statu', did you mean 'status'") !=
        std::string::npos);
  CHECK(changed("/time/medianus", 1).starts_with("a record.time: unknown key 'medianus'"));
  CHECK(changed("/time/n", "20").starts_with("a record.time.n: "));
  CHECK(changed("/check", Json::object()) == "a record.check needs 'smape_pct'");
  Json without = good;
  without["matrix"].erase("nnz");
  CHECK(error_of(without) == "a record.matrix needs 'nnz'");
}

TEST_CASE("every column that points into a record points at a value that a record can have") {
  Json product = to_json(whole_record());
  Record packing;
  packing.check = PackingCheck{true, true};
  const Json packed = to_json(packing);

  for (const Column& column : record_columns()) {
    CAPTURE(column.name);
    CHECK(std::string(column.meaning) != "");
    const std::string pointer = column.pointer;
    if (pointer.empty() || pointer.starts_with("/params/")) continue;
    const Json::json_pointer at(pointer);
    CHECK((product.contains(at) || packed.contains(at)));
  }
}

TEST_CASE("no two columns have one name") {
  std::set<std::string> names;
  for (const Column& column : record_columns()) CHECK(names.insert(column.name).second);
  CHECK(find_column("time_us") != nullptr);
  CHECK(find_column("time_use") == nullptr);
}

TEST_CASE("the records of real runs that are shipped are read and written unchanged") {
  std::int64_t read = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(shipped_path("experiments/results"))) {
    if (entry.path().extension() != ".jsonl") continue;
    CAPTURE(entry.path().string());
    for (const Json& line : read_json_lines(entry.path().string())) {
      if (line.value("type", "") != "point") continue;
      const Json again = to_json(record_from_json(line));
      if (again != line) FAIL(Json::diff(line, again).dump());
      ++read;
    }
  }
  CHECK(read > 0);
}

}  // namespace
}  // namespace tessera
