// Points with kernel = "auto", whose kernel the advisor chooses: their configs, records and
// identity.
#include <doctest/doctest.h>

#include <regex>
#include <string>

#include "experiments/config/plan.hpp"
#include "experiments/run/advice.hpp"
#include "experiments/run/run_point.hpp"
#include "experiments/tables/rows.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

const std::string kMatrix = "rmat(scale=8)";

Config config_of(const std::string& grid) {
  const TemporaryFolder folder;
  write_text(
      folder / "c.toml",
      "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\", \"simulate\", \"model\"]\n"
      "[grid]\nmatrix = \"" +
          kMatrix + "\"\nn = 16\n" + grid);
  return load_config(folder / "c.toml");
}

Point point_of(const std::string& kernel, const std::string& backend) {
  return make_plan(config_of("kernel = \"" + kernel + "\"\n"), {backend}).entries.at(0).point;
}

std::string error_of(const std::string& grid) {
  try {
    make_plan(config_of(grid));
  } catch (const Error& error) {
    return std::regex_replace(error.what(), std::regex("[^ ]*/c\\.toml"), "c.toml");
  }
  return "no error";
}

TEST_CASE("a point with kernel auto names neither a kernel nor a format") {
  const Point point = point_of("auto", "simulate");

  const Json json = to_json(point);

  CHECK(json["kernel"] == Json{{"name", "auto"}});
  CHECK(json["format"] == Json{{"name", "auto"}});
  CHECK(to_json(point_from_json(Json::parse(json.dump()))) == json);
  Json mixed = json;
  mixed["format"] = {{"name", "csr"}};
  CHECK_THROWS_WITH_AS(point_from_json(mixed),
                       "kernel auto with format csr: both are auto or neither", Error);
  Json with_parameter = json;
  with_parameter["kernel"]["precision"] = "tf32";
  CHECK_THROWS_WITH_AS(point_from_json(with_parameter), doctest::Contains("unknown kernel 'auto'"),
                       Error);
}

TEST_CASE(
    "a config that combines kernel auto with a format or a parameter is refused with its place") {
  CHECK(error_of("kernel = \"auto\"\n") == "no error");
  CHECK(error_of("kernel = [\"auto\", \"acc_spmm\"]\nprecision = \"tf32_raw\"\n") == "no error");
  CHECK(error_of("kernel = \"auto\"\nformat = \"auto\"\n") == "no error");
  CHECK(error_of("kernel = \"auto\"\nformat = \"csr\"\n") ==
        "c.toml:9:10: kernel auto picks its format, and cannot be told to read csr");
  CHECK(error_of("kernel = \"acc_spmm\"\nformat = \"auto\"\n") ==
        "c.toml:9:10: kernel acc_spmm reads format bit_tcf, not auto");
  CHECK(error_of("kernel = \"auto\"\nprecision = \"tf32_raw\"\n").find("unknown") !=
        std::string::npos);
  CHECK(error_of("kernel = \"aut\"\n").find("unknown kernel 'aut'") != std::string::npos);
}

TEST_CASE("kernel auto gives the result of its kernel, and records which kernel and why") {
  for (const char* backend : {"emulate", "simulate", "model"}) {
    CAPTURE(backend);
    PointRunner runner;

    const Json record = runner.run(point_of("auto", backend)).record;

    REQUIRE(record["status"] == "ok");
    const Json& advice = record["advice"];
    const std::string kernel = advice["kernel"].get<std::string>();
    const Json expected = runner.run(point_of(kernel.substr(0, kernel.find('(')), backend)).record;
    for (const char* part : {"check", "prediction", "simulation", "counters", "gflops"}) {
      if (!expected.contains(part)) continue;
      Json found = record.at(part), wanted = expected.at(part);
      if (found.is_object()) found.erase("seconds"), wanted.erase("seconds");
      CHECK_MESSAGE(found == wanted, part);
    }
    CHECK(record["params"]["kernel"] == Json{{"name", "auto"}});
    CHECK(advice["device"] == "h200");
    CHECK(advice["simulated"] == true);
    CHECK(advice["time_us"].get<double>() <= advice["runner_up"]["time_us"].get<double>());
    CHECK(record["prep"]["advise_s"].get<double>() > 0);
    CHECK(record["prep"]["footprint_bytes"] == expected["prep"]["footprint_bytes"]);
    CHECK_FALSE(expected.contains("advice"));
  }
}

TEST_CASE("the simulated time of kernel auto equals the time in the advice") {
  const Json record = PointRunner().run(point_of("auto", "simulate")).record;

  CHECK(record["prediction"]["time_us"] == record["advice"]["time_us"]);
}

TEST_CASE("the identity of a result of kernel auto covers the advisor and every kernel") {
  const Point automatic = point_of("auto", "simulate"), chosen = point_of("csr_spmm", "simulate");

  const Json record = PointRunner().run(automatic).record;

  CHECK(record["advisor_version"] == advisor::kVersion);
  CHECK(record["kernel_versions"].contains("csr_spmm"));
  CHECK(record["kernel_versions"].contains("acc_spmm"));
  CHECK(record["point_id"] == PointRunner().run(automatic).record.point_id);
  CHECK(record["point_id"] != PointRunner().run(chosen).record.point_id);
  CHECK_FALSE(record.contains("kernel_version"));
}

TEST_CASE("when no kernel can be predicted, the error lists the reason of each") {
  const CsrMatrix matrix = random_sparse(40, 40, 0.1, 5);

  CHECK_THROWS_WITH_AS(
      choose_kernel(matrix, {.kernels = {"cusparse", "mma_csr"}}),
      "no kernel can be predicted on h200; cusparse: this kernel publishes no work "
      "description; mma_csr: mma_csr publishes no trace of its warps",
      Unsupported);
}

TEST_CASE("on a device without TF32 a kernel for CUDA cores is chosen") {
  Point point = point_of("auto", "emulate");
  point.device = "v100";

  const Json record = PointRunner().run(point).record;

  REQUIRE(record["status"] == "ok");
  const std::string chosen = record["advice"]["kernel"];
  const auto kernel = Registry<SpmmKernel>::instance().make(chosen.substr(0, chosen.find('(')));
  CHECK(kernel->arithmetic().sum == Arithmetic::Sum::kFp32);
  CHECK(record["advice"]["device"] == "v100");
}

TEST_CASE("a table shows auto as the kernel, and the chosen kernel as advised") {
  const Config config = config_of("kernel = \"auto\"\n");
  const Plan plan = make_plan(config, {"model"});
  RecordSet records;
  records.points.push_back(PointRunner().run(plan.entries.at(0).point).record);

  const std::vector<Row> rows = make_rows(plan, records, config);

  REQUIRE(rows.size() == 1);
  CHECK(cell_text(rows[0], "kernel") == "auto");
  CHECK(cell_text(rows[0], "format") == "auto");
  CHECK(cell_text(rows[0], "advised") == records.points[0]["advice"]["kernel"].get<std::string>());
}

}  // namespace
}  // namespace tessera
