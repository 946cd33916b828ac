// [[join]]: what one backend predicts of a case beside what another one found.
#include <doctest/doctest.h>

#include "experiments/tables/figure_data.hpp"
#include "tests/planted_records.hpp"

namespace tessera {
namespace {

const std::string kJoin =
    "[[join]]\nname = \"predicted\"\nfrom = { backend = \"model\" }\n"
    "columns = [\"time_us\", \"nnz\"]\n";

std::string rows_error(const std::string& rest) {
  return error_of([&] { planted_experiment(rest); });
}

TEST_CASE("every other row of a case gets the columns of the row joined, and its origin") {
  const auto found = planted_experiment(kJoin);

  REQUIRE(found.rows.size() == 8);
  for (const Row& row : found.rows) {
    CAPTURE(row.at("matrix"));
    CAPTURE(row.at("kernel"));
    const bool joined = row.at("backend") == "emulate";
    CHECK(row.contains("predicted_time_us") == joined);
    if (!joined) continue;
    const double time =
        (row.at("kernel") == "csr_spmm" ? 48 : 16) * (row.at("matrix") == "absent_b" ? 2 : 1);
    CHECK(row.at("predicted_time_us") == time);
    CHECK(row.at("predicted_origin") == "modelled");
    CHECK(row.at("origin") == "emulated");
  }
}

TEST_CASE("a case without the row joined, or with one that failed, gets nothing") {
  auto found = planted_experiment(kJoin);
  found.records.points[1]["status"] = "failed";  // absent_a, csr_spmm, model
  found.records.points.pop_back();               // absent_b, acc_spmm, model

  const auto rows = make_rows(found.plan, found.records, found.config);

  int joined = 0;
  for (const Row& row : rows) joined += row.contains("predicted_time_us");
  CHECK(joined == 2);
  CHECK_FALSE(rows[0].contains("predicted_time_us"));
  CHECK_FALSE(rows[0].contains("predicted_origin"));
}

TEST_CASE("a joined value keeps the origin it had, and gives it to what is derived from it") {
  const auto found =
      planted_experiment(kJoin +
                         "[[derive]]\nname = \"error\"\nexpr = \"smape_pct / predicted_time_us\"\n"
                         "[[derive]]\nname = \"twice\"\nexpr = \"2 * smape_pct\"\n"
                         "[[derive]]\nname = \"size\"\nexpr = \"nnz + predicted_nnz\"\n");
  const Row& row = found.rows[0];

  CHECK(row.at("error") == 0.25 / 48);
  CHECK(value_origin(row, "predicted_time_us", found.config) == "modelled");
  CHECK(value_origin(row, "predicted_nnz", found.config) == "counted");
  CHECK(value_origin(row, "error", found.config) == "modelled");
  CHECK(value_origin(row, "twice", found.config) == "emulated");
  CHECK(value_origin(row, "size", found.config) == "counted");
}

TEST_CASE("two rows for one case are an error that says how to tell them apart") {
  const std::string ambiguous =
      "[[join]]\nname = \"predicted\"\nfrom = { backend = \"model\" }\n"
      "columns = [\"time_us\"]\non = [\"matrix\"]\n";

  CHECK(rows_error(ambiguous).starts_with(
      "c.toml:11:1: [[join]] 'predicted' finds two rows for absent_a acc_spmm"));
  CHECK(rows_error(kJoin) == "no error");
}

TEST_CASE("a join over what is no column, or from nowhere, is an error with its place") {
  const std::string head = "[[join]]\nname = \"p\"\n";
  const std::string from = "from = { backend = \"model\" }\n";

  CHECK(rows_error(head + from + "columns = [\"tme_us\"]\n")
            .starts_with("c.toml:11:1: unknown column 'tme_us', did you mean 'time_us'"));
  CHECK(rows_error(head + from + "columns = [\"n\"]\non = [\"matrx\"]\n")
            .starts_with("c.toml:11:1: unknown column 'matrx'"));
  CHECK(rows_error(head + "from = { backnd = \"model\" }\ncolumns = [\"n\"]\n")
            .starts_with("c.toml:13:"));
  CHECK(rows_error(head + "columns = [\"n\"]\n").starts_with("c.toml:11:1: 'from' says which"));
  CHECK(rows_error(head + from).find("columns") != std::string::npos);
}

TEST_CASE("counters are columns, of what was measured and of what was simulated alike") {
  auto found = planted_experiment("");
  found.records.points[0]["counters"] = {{"gpu__time_duration.sum", 12500.0},
                                         {"lts__t_sector_hit_rate.pct", 81.5},
                                         {"sm__inst_executed_pipe_tensor.sum", 640}};
  found.records.points[0]["counters_source"] = "cupti";

  const auto rows = make_rows(found.plan, found.records, found.config);

  CHECK(rows[0].at("counted_us") == 12.5);
  CHECK(rows[0].at("l2_hit_pct") == 81.5);
  CHECK(rows[0].at("mma_executed") == 640);
  CHECK(rows[0].at("counters_source") == "cupti");
  CHECK_FALSE(rows[0].contains("l1_hit_pct"));
  CHECK_FALSE(rows[1].contains("counted_us"));
}

TEST_CASE("a scatter holds joined values against found ones, also where cases agree in one") {
  const auto found = planted_experiment(
      kJoin +
      "[[figure]]\nkind = \"scatter\"\nx = \"smape_pct\"\ny = \"predicted_time_us\"\n"
      "series = \"kernel\"\nx_scale = \"linear\"\nwhere = { backend = \"emulate\" }\n");

  const FigureData data =
      make_figure_data(found.config.figures[0], found.rows, found.config, "here");

  REQUIRE(data.json["series"].size() == 2);
  CHECK(data.json["series"][0]["origin"] == "modelled");
  CHECK(data.json["series"][0]["points"].size() == 2);
}

}  // namespace
}  // namespace tessera
