// From records to what people look at: rows, derived and reduced, and tables.
#include "experiments/tables/rows.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <regex>

#include "experiments/tables/table.hpp"
#include "experiments/tables/write_file.hpp"
#include "formats/base/check.hpp"
#include "tests/planted_records.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// "absent_a/acc_spmm=3": matrix, kernel and a column of each row.
std::string told(const std::vector<Row>& rows, const std::string& column) {
  std::vector<std::string> cells;
  for (const Row& row : rows)
    cells.push_back(fmt::format("{}/{}={}", cell_text(row, "matrix"), cell_text(row, "kernel"),
                                cell_text(row, column)));
  return fmt::format("{}", fmt::join(cells, " "));
}

std::string rows_error(const std::string& rest) {
  return error_of([&] { planted_experiment(rest); });
}

Setting setting(Json value) { return {std::move(value), "here"}; }

TEST_CASE("a row holds the point, what was found, and the labels of the plan") {
  const auto found =
      planted_experiment("[[case]]\nname = \"truncated\"\nprecision = \"tf32_raw\"\n");

  REQUIRE(found.rows.size() == 8);
  const Row& csr = found.rows[1];
  CHECK(csr.at("matrix") == "absent_a");
  CHECK(csr.at("kernel") == "csr_spmm");
  CHECK(csr.at("backend") == "model");
  CHECK(csr.at("origin") == "modelled");
  CHECK(csr.at("case") == "truncated");
  CHECK(csr.at("n") == 16);
  CHECK(csr.at("nnz") == 100);
  CHECK(csr.at("device") == "h200");
  CHECK(csr.at("time_us") == 48.0);
  CHECK(csr.at("status") == "ok");
  CHECK_FALSE(csr.contains("kernel.precision"));
  CHECK_FALSE(csr.contains("smape_pct"));
  CHECK(found.rows[3].at("kernel.precision") == "tf32_raw");
  CHECK(found.rows[0].at("smape_pct") == 0.25);
  CHECK_FALSE(found.rows[0].contains("time_us"));
}

TEST_CASE("rows are in the order of the plan, and points without a record have none") {
  auto found = planted_experiment("");
  std::ranges::reverse(found.records.points);
  found.records.points.pop_back();

  const auto rows = make_rows(found.plan, found.records, found.config);

  CHECK(told(select(rows, {{"backend", setting("model")}}), "time_us") ==
        "absent_a/csr_spmm=48 absent_a/acc_spmm=16 absent_b/csr_spmm=96 absent_b/acc_spmm=32");
  CHECK(rows.size() == 7);
}

TEST_CASE("a measured row names the GPU of its environment, and its median is its time") {
  auto found = planted_experiment("");
  Json& record = found.records.points[0];
  record["params"].erase("device");
  record["env_id"] = "e1";
  record["time"] = {{"median_us", 7.5}, {"p5_us", 7.0}, {"p95_us", nullptr}};
  found.records.environments["e1"] = {{"gpu", {{"name", "NVIDIA H200"}}}};

  const Row row = make_rows(found.plan, found.records, found.config)[0];

  CHECK(row.at("device") == "NVIDIA H200");
  CHECK(row.at("time_us") == 7.5);
  CHECK(row.at("p5_us") == 7.0);
  CHECK_FALSE(row.contains("p95_us"));
}

TEST_CASE("the newest record of a request counts") {
  auto found = planted_experiment("");
  Json newer = found.records.points[0];
  newer["matrix"]["nnz"] = 12345;
  newer["point_id"] = "another content";
  found.records.points.push_back(newer);

  CHECK(make_rows(found.plan, found.records, found.config)[0].at("nnz") == 12345);
}

TEST_CASE("a derived column is computed from the row's others, where it has them all") {
  const auto found = planted_experiment(
      "[[derive]]\nname = \"per_nnz\"\nexpr = \"2 * time_us / nnz\"\n"
      "[[derive]]\nname = \"twice\"\nexpr = \"per_nnz * 2\"\n"
      "[[derive]]\nname = \"infinite\"\nexpr = \"1 / (nnz - 100)\"\n");

  CHECK(found.rows[1].at("per_nnz").get<double>() == doctest::Approx(0.96));
  CHECK(found.rows[1].at("twice").get<double>() == doctest::Approx(1.92));
  CHECK_FALSE(found.rows[0].contains("per_nnz"));  // an emulation has no time
  CHECK_FALSE(found.rows[0].contains("infinite"));
  CHECK(found.rows[4].at("infinite").get<double>() == doctest::Approx(0.005));
}

TEST_CASE("bins put a label on a number, a limit belonging to the bin above it") {
  const auto found = planted_experiment(
      "[[derive]]\nname = \"size\"\nof = \"nnz\"\nbins = [100, 200]\n"
      "labels = [\"small\", \"middle\", \"large\"]\n"
      "[[derive]]\nname = \"speed\"\nof = \"time_us\"\nbins = [16.5]\nlabels = [\"quick\", "
      "\"slow\"]\n");

  CHECK(found.rows[0].at("size") == "middle");
  CHECK(found.rows[4].at("size") == "large");
  CHECK(found.rows[1].at("speed") == "slow");
  CHECK(found.rows[3].at("speed") == "quick");
  CHECK_FALSE(found.rows[0].contains("speed"));
}

TEST_CASE("a derived column of what is no column, or no expression, is an error with its place") {
  CHECK(rows_error("[[derive]]\nname = \"x\"\nexpr = \"time_uss * 2\"\n")
            .starts_with("c.toml:11:1: unknown column 'time_uss', did you mean 'time_us'"));
  CHECK(rows_error("[[derive]]\nname = \"x\"\nof = \"nzn\"\nbins = [1]\nlabels = [\"a\", \"b\"]\n")
            .starts_with("c.toml:11:1: unknown column 'nzn'"));
  CHECK(rows_error("[[derive]]\nname = \"x\"\nexpr = \"nnz * \"\n")
            .starts_with("c.toml:11:1: 'nnz * ': "));
}

TEST_CASE("a reduction adds the best row of each group under its own name") {
  const auto found = planted_experiment(
      "[[reduce]]\nname = \"Best\"\nby = \"time_us\"\nwhere = { backend = \"model\" }\n"
      "[[reduce]]\nname = \"Worst\"\nby = \"time_us\"\nbest = \"max\"\nkeep = [\"n\"]\n"
      "where = { backend = \"model\", kernel = \"csr_spmm\" }\n");

  REQUIRE(found.rows.size() == 8 + 2 + 1);
  const std::vector<Row> best(found.rows.begin() + 8, found.rows.begin() + 10);
  CHECK(told(best, "time_us") == "absent_a/Best=16 absent_b/Best=32");
  CHECK(told(best, "chosen") == "absent_a/Best=acc_spmm absent_b/Best=acc_spmm");
  CHECK(told({found.rows[10]}, "time_us") == "absent_b/Worst=96");
  CHECK_FALSE(found.rows[0].contains("chosen"));
}

TEST_CASE("a reduction passes over rows that did not end well") {
  auto found = planted_experiment("[[reduce]]\nname = \"Best\"\nby = \"time_us\"\n");
  for (Json& record : found.records.points)
    if (record["params"]["kernel"]["name"] == "acc_spmm") record["status"] = "wrong";

  const auto rows = make_rows(found.plan, found.records, found.config);

  CHECK(told({rows.begin() + 8, rows.end()}, "chosen") ==
        "absent_a/Best=csr_spmm absent_b/Best=csr_spmm");
}

TEST_CASE("a reduction over what is no column is an error with its place") {
  const std::string head = "[[reduce]]\nname = \"Best\"\n";
  for (const char* key : {"by = \"tme_us\"\n", "column = \"kernl\"\n", "keep = [\"matrx\"]\n",
                          "where = { backnd = \"model\" }\n"}) {
    CAPTURE(key);
    CHECK(rows_error(head + key).find("unknown column '") != std::string::npos);
    CHECK(rows_error(head + key).starts_with("c.toml:1"));
  }
}

TEST_CASE(
    "rows are selected by their values, and failed rows only where the selection names the "
    "status") {
  auto found = planted_experiment("");
  found.records.points[1]["status"] = "wrong";
  const auto rows = make_rows(found.plan, found.records, found.config);

  CHECK(select(rows, {}).size() == 7);
  CHECK(told(select(rows, {{"backend", setting("model")}, {"matrix", setting("absent_a")}}), "n") ==
        "absent_a/acc_spmm=16");
  CHECK(told(select(rows, {{"status", setting("wrong")}}), "n") == "absent_a/csr_spmm=16");
  CHECK(select(rows, {{"n", setting(16)}}).size() == 7);
  CHECK(select(rows, {{"n", setting(16.0)}}).size() == 7);
  CHECK(select(rows, {{"n", setting("16")}}).empty());
  CHECK(select(rows, {{"n", setting(Json::array({8, 16}))}}).size() == 7);
  CHECK(select(rows, {{"n", setting(Json::array({8, 32}))}}).empty());
  CHECK(select(rows, {{"kernel.precision", setting("tf32")}}).size() == 4);
}

TEST_CASE("columns are known by name: fixed ones, parameters, labels and derived ones") {
  const auto found = planted_experiment(
      "[[derive]]\nname = \"half\"\nexpr = \"nnz / 2\"\n"
      "[[case]]\nname = \"one\"\nreorder = \"none\"\n");
  const auto check = [&](const std::string& column, const std::vector<Row>& rows) {
    return error_of([&] { check_column(column, rows, found.config, "here"); });
  };

  for (const char* column : {"matrix", "gflops", "half", "case", "kernel.precision", "step"}) {
    CAPTURE(column);
    CHECK(check(column, found.rows) == "no error");
    CHECK(check(column, {}) == "no error");  // also before anything has run
  }
  CHECK(check("gflop", found.rows)
            .starts_with("here: unknown column 'gflop', did you mean 'gflops'"));
  for (const auto& [column, meaning] : row_columns()) CHECK(meaning != "");
}

TEST_CASE("cells are text as it is and numbers of six digits") {
  const Row row{
      {"text", "a b"}, {"float", 1.0 / 3}, {"int", 12345678}, {"flag", true}, {"none", nullptr}};

  CHECK(cell_text(row, "text") == "a b");
  CHECK(cell_text(row, "float") == "0.333333");
  CHECK(cell_text(row, "int") == "12345678");
  CHECK(cell_text(row, "flag") == "true");
  CHECK(cell_text(row, "none") == "");
  CHECK(cell_text(row, "absent") == "");
}

TEST_CASE("a CSV table keeps every digit and quotes what needs it") {
  const std::vector<Row> rows{{{"name", "a,b"}, {"x", 1.0 / 3}, {"n", 7}},
                              {{"name", "say \"hi\"\nthere"}, {"n", nullptr}}};

  CHECK(csv_table(rows, {"name", "x", "n", "a,b"}) ==
        "name,x,n,\"a,b\"\n"
        "\"a,b\",0.3333333333333333,7,\n"
        "\"say \"\"hi\"\"\nthere\",,,\n");
  CHECK(csv_table({}, {"name", "x"}) == "name,x\n");
}

TEST_CASE("a text table aligns columns, numbers to the right, by characters") {
  const std::vector<Row> rows{{{"name", "é"}, {"x", 12345.678}},
                              {{"name", "long"}, {"x", 2}},
                              {{"name", "tiny"}, {"x", 1.23456e-7}}};

  CHECK(text_table(rows, {"name", "x", "none"}) ==
        "name          x  none\n"
        "----  ---------  ----\n"
        "é         12346\n"
        "long          2\n"
        "tiny  1.235e-07\n");
}

TEST_CASE("a file is written whole, its folder made, or not at all") {
  const TemporaryFolder folder;
  write_text(folder / "file", "");

  write_file(folder / "new/t.csv", "a\n");
  write_file(folder / "new/t.csv", "b\n");

  CHECK(read_text(folder / "new/t.csv") == "b\n");
  const std::filesystem::directory_iterator files(folder / "new");
  CHECK(std::distance(begin(files), end(files)) == 1);  // nothing left beside
  CHECK_THROWS_AS(write_file(folder / "file/t.csv", "c\n"), Error);
  CHECK_THROWS_AS(write_file(folder / "new", "c\n"), Error);
}

}  // namespace
}  // namespace tessera
