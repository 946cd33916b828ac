// Points that only pack A: what a config may ask of them, what they do, and what their records are
// made into.
#include <doctest/doctest.h>

#include <cmath>
#include <regex>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/check_result.hpp"
#include "experiments/backends/time_summary.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/run/run_point.hpp"
#include "experiments/tables/rows.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "formats/format.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr float kSpoilt = 1.75e-31f;  // what no other test has as a first value

/// CSR that gives the last value back with the other sign when the first one is kSpoilt.
struct ToyLossyPacked final : PackedMatrix {
  explicit ToyLossyPacked(const CsrMatrix& matrix)
      : PackedMatrix(matrix.rows, matrix.cols, matrix.nnz()),
        offsets(matrix.row_offsets.begin(), matrix.row_offsets.end()),
        cols_of(matrix.col_indices.begin(), matrix.col_indices.end()),
        values(matrix.values.begin(), matrix.values.end()) {}

  CsrMatrix unpack() const override {
    std::vector<float> found = values;
    if (!found.empty() && found.front() == kSpoilt) found.back() = -found.back();
    return {rows(), cols(), offsets, cols_of, std::move(found)};
  }
  std::vector<ArrayInfo> arrays() const override {
    return {array_info("offsets", offsets), array_info("cols", cols_of),
            array_info("values", values, true)};
  }
  std::string locate(std::int32_t row) const override { return fmt::format("row {}", row); }

  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> cols_of;
  std::vector<float> values;
};

class ToyLossy final : public Format {
  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix, const PackLimits&) const override {
    return std::make_unique<ToyLossyPacked>(matrix);
  }
};

const Register<Format> toy_lossy{{
    .name = "toy_lossy",
    .summary = "loses a sign on the way, for the test of the round trip",
    .params = {{"width", std::int64_t{8}, "", {}, 1, 64}},
    .make = [](const Params&) { return std::make_unique<ToyLossy>(); },
}};

const std::string kHead = "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"pack\"]\n";

Config config_of(const std::string& rest) {
  const TemporaryFolder folder;
  write_text(folder / "c.toml", kHead + rest);
  return load_config(folder / "c.toml");
}

std::string error_of(const std::string& rest, const std::vector<std::string>& backends = {}) {
  try {
    make_plan(config_of(rest), backends);
  } catch (const Error& error) {
    return std::regex_replace(error.what(), std::regex("[^ ]*/c\\.toml"), "c.toml");
  }
  return "no error";
}

TEST_CASE("a point that packs has a format of its own and nothing of a product") {
  const Plan plan = make_plan(config_of(
      "[grid]\nmatrix = \"absent_a\"\nreorder = [\"none\", \"rcm\"]\n"
      "format = [\"csr\", { name = \"toy_lossy\", width = 16 }]\n[statistics]\nsquare = true\n"));

  REQUIRE(plan.entries.size() == 4);
  CHECK(to_json(plan.entries[1].point).dump() ==
        R"({"backend":"pack","format":{"name":"toy_lossy","width":16},"matrix":"absent_a",)"
        R"("reorder":{"name":"none"},"seed":42,"square":true,"values":"auto"})");
  CHECK(task_text(plan.entries[1].point) == "none toy_lossy(width=16)");
  CHECK(task_text(plan.entries[2].point) == "rcm csr");
  CHECK(plan.entries[0].cost == 1);
  for (const PlanEntry& entry : plan.entries) {
    const Json json = to_json(entry.point);
    CHECK(to_json(point_from_json(Json::parse(json.dump()))) == json);
  }
}

TEST_CASE("a config that mixes packing with products, or names no format, is refused") {
  const std::string grid = "[grid]\nmatrix = \"absent_a\"\nformat = \"csr\"\n";
  CHECK(error_of(grid) == "no error");
  CHECK(error_of(grid, {"pack_gpu"}) == "no error");
  CHECK(error_of(grid + "kernel = \"csr_spmm\"\n") ==
        "c.toml:8:10: kernel is of a product, and backend pack only packs A");
  CHECK(error_of(grid + "kernel = \"csr_spmm\"\n", {"emulate", "pack_gpu"}) ==
        "c.toml:8:10: kernel is of a product, and backend pack_gpu only packs A");
  CHECK(error_of(grid + "n = 16\n") ==
        "c.toml:8:5: n is of a product, and backend pack only packs A");
  CHECK(error_of(grid + "device = \"h200\"\n").starts_with("c.toml:8:10: device is of a product"));
  CHECK(error_of(grid + "\"kernel.precision\" = \"tf32\"\n")
            .starts_with("c.toml:8:22: unknown axis or parameter 'kernel.precision'"));
  CHECK(error_of("[grid]\nmatrix = \"absent_a\"\n").starts_with("c.toml: no format is given"));
  CHECK(error_of("[grid]\nmatrix = \"absent_a\"\nformat = \"cs\"\n")
            .starts_with("c.toml:7:10: unknown format 'cs', did you mean 'csr'"));
  CHECK(error_of(grid + "[statistics]\nsquar = true\n").find("'squar', did you mean 'square'") !=
        std::string::npos);
  CHECK(error_of(grid + "[[unfold]]\nname = \"blocks\"\n").starts_with("c.toml:8:1: "));
  CHECK(error_of(grid, {"emulate"}).starts_with("c.toml: no kernel is given"));
}

TEST_CASE("the JSON form of a point that packs takes no key of a product") {
  const Json good = to_json(
      make_plan(config_of("[grid]\nmatrix = \"absent_a\"\nformat = \"csr\"\n")).entries[0].point);
  const auto error = [&](const char* key, const Json& value) {
    Json json = good;
    json[key] = value;
    try {
      point_from_json(json);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };

  CHECK(error("seed", 7) == "no error");
  CHECK(error("n", 8).starts_with("unknown key of a point 'n'"));
  CHECK(error("kernel", {{"name", "csr_spmm"}}).starts_with("unknown key of a point 'kernel'"));
  CHECK(error("square", true) == "no error");
  CHECK(error("square", false) == "square: a point has it only when it is true");
  CHECK(params_hash(point_from_json(good)) != params_hash([&] {
          Point point = point_from_json(good);
          std::get<Packing>(point.task).format.name = "bit_tcf";
          return point;
        }()));
}

/// The record of packing a matrix file, or a generated matrix.
Json packed(const std::string& matrix, const std::string& format, bool square = false) {
  Point point;
  point.backend = "pack";
  point.matrix = matrix;
  point.reorder.name = "none";
  point.task = Packing{
      {parse_values("stored")}, {format, Registry<Format>::instance().resolve(format, {})}, square};
  return PointRunner().run(point).record;
}

TEST_CASE("a packed point is timed, weighed, described and unpacked again") {
  const Json record = packed("poisson2d(nx=40, ny=30)", "bit_tcf", true);

  INFO(record.dump(1));
  REQUIRE(record["status"] == "ok");
  CHECK(record["origin"] == "measured");
  CHECK(record["format_version"] == 1);
  CHECK_FALSE(record.contains("kernel_version"));
  CHECK(record["time"]["n"] >= 3);
  CHECK(record["time"]["median_us"] > 0);
  CHECK(record["time"]["threads"] >= 1);
  CHECK(record["prep"]["pack_s"].get<double>() ==
        doctest::Approx(1e-6 * record["time"]["median_us"].get<double>()));
  CHECK(record["nnz_per_s"].get<double>() ==
        doctest::Approx(5860 / record["prep"]["pack_s"].get<double>()));
  CHECK(record["check"]["round_trip_exact"] == true);

  const Json& prep = record["prep"];
  CHECK(prep["value_bytes"] == 4 * 5860);
  CHECK(prep["index_bytes"] == 4 * (150 + 11 * prep["tiles"].get<int>() + 2));
  CHECK(prep["footprint_bytes"] == prep["index_bytes"].get<int>() + prep["value_bytes"].get<int>());
  CHECK(prep["arrays"]["tc_local_bit"] == 8 * prep["tiles"].get<int>());
  CHECK(record["statistics"]["tc_blocks_8x8"] == prep["tiles"]);
  CHECK(record["statistics"]["predicted_bytes_bit_tcf"] == prep["footprint_bytes"]);
  CHECK(record["statistics"]["square_products"] > 5860);
  CHECK_FALSE(packed("poisson2d(nx=4, ny=3)", "csr")["statistics"].contains("square_products"));
}

TEST_CASE("a round trip that loses the sign of a value makes the point wrong, and says where") {
  const TemporaryFolder folder;
  const std::string head = "%%MatrixMarket matrix coordinate real general\n3 5 3\n";
  write_text(folder / "good.mtx", head + "1 1 0.5\n2 4 2\n3 2 7.25\n");
  write_text(folder / "bad.mtx", head + "1 1 1.75e-31\n2 4 2\n3 2 7.25\n");

  CHECK(packed(folder / "good.mtx", "toy_lossy")["status"] == "ok");
  const Json record = packed(folder / "bad.mtx", "toy_lossy");

  CHECK(record["status"] == "wrong");
  CHECK(record["reason"] == "unpacked, row 2, column 1 holds -7.25, not 7.25");
  CHECK(record["check"]["round_trip_exact"] == false);
}

CsrMatrix csr(std::int32_t cols, std::vector<std::int64_t> offsets,
              std::vector<std::int32_t> col_indices, std::vector<float> values) {
  return {2, cols, std::move(offsets), std::move(col_indices), std::move(values)};
}

TEST_CASE("the fault of a round trip is found in shape, columns and value bits") {
  const CsrMatrix a = csr(3, {0, 1, 3}, {1, 0, 2}, {1.5f, 0.0f, 2.5f});
  const auto fault = [&](const CsrMatrix& unpacked) {
    return round_trip_fault(CsrPacked(unpacked), a);
  };

  CHECK(fault(a) == "");
  CHECK(fault(csr(4, {0, 1, 3}, {1, 0, 2}, {1.5f, 0.0f, 2.5f})) ==
        "unpacked it is 2 x 4, not 2 x 3");
  CsrMatrix none;
  none.cols = 3;
  CHECK(fault(none) == "unpacked it is 0 x 3, not 2 x 3");
  CHECK(fault({3, 3, std::vector<std::int64_t>{0, 1, 3, 3}, a.col_indices, a.values}) ==
        "unpacked it is 3 x 3, not 2 x 3");
  CHECK(fault(csr(3, {0, 1, 3}, {1, 0, 1}, {1.5f, 0.0f, 2.5f})) ==
        "unpacked, row 1 has other columns: 2 instead of 2 nonzeros");
  CHECK(fault(csr(3, {0, 1, 2}, {1, 2}, {1.5f, 2.5f})) ==
        "unpacked, row 1 has other columns: 1 instead of 2 nonzeros");
  CHECK(fault(csr(3, {0, 1, 3}, {1, 0, 2}, {1.5f, -0.0f, 2.5f})) ==
        "unpacked, row 1, column 0 holds -0, not 0");
}

TEST_CASE("a backend does what its traits say and refuses the rest") {
  const BackendChoice pack = find_backend("pack"), emulate = find_backend("emulate");
  const CsrMatrix a = random_sparse(4, 4, 0.5, 1);
  Point point;
  point.backend = "emulate";
  const auto format = Registry<Format>::instance().make("csr");

  CHECK(pack.missing.empty());
  CHECK_THROWS_WITH_AS(emulate.backend->pack({point, *format, a}), "backend emulate does not pack",
                       Error);
  CHECK(backend_traits("pack_gpu").activity == Activity::kPack);
  CHECK(backend_traits("pack_gpu").needs_gpu);
  CHECK(backend_traits("gpu").activity == Activity::kMultiply);
}

TEST_CASE("a time is summarised by its order statistics") {
  const TimeSummary time = summarise({4, 1, 2, 3, 10}, 2);

  CHECK(time.median == 3);
  CHECK(time.min == 1);
  CHECK(time.mean == 4);
  CHECK(time.p5 == doctest::Approx(1.2));
  CHECK(time.p95 == doctest::Approx(8.8));
  CHECK(time.stddev == doctest::Approx(std::sqrt(10.0)));
  CHECK(time.launches_per_sample == 2);
  CHECK(summarise({7}, 1).p95 == 7);
}

/// Rows of one made-up record that packs absent_a, with the histogram given.
std::vector<Row> rows_with(const std::string& histogram, const Config& config) {
  const Plan plan = make_plan(config);
  RecordSet records;
  records.points.push_back(
      {{"params_hash", plan.entries.at(0).hash},
       {"params", to_json(plan.entries.at(0).point)},
       {"status", "ok"},
       {"origin", "measured"},
       {"prep", {{"footprint_bytes", 50}, {"pack_s", 0.5}}},
       {"matrix", {{"nnz", 10}}},
       {"statistics",
        {{"predicted_bytes_tcf", 200}, {"tiles_per_block_row_histogram_16x16", histogram}}}});
  return make_rows(plan, records, config);
}

TEST_CASE("statistics are columns, and what is derived of counts alone counts as counted") {
  const Config config = config_of(
      "[grid]\nmatrix = \"absent_a\"\nformat = \"csr\"\n"
      "[[derive]]\nname = \"ratio\"\nexpr = \"predicted_bytes_tcf / footprint_bytes\"\n"
      "[[derive]]\nname = \"twice\"\nexpr = \"2 * ratio\"\n"
      "[[derive]]\nname = \"speed\"\nexpr = \"nnz / pack_s + 0 * gflops\"\n");

  const Row row = rows_with("0:1", config).at(0);

  CHECK(row.at("ratio") == 4.0);
  CHECK(value_origin(row, "predicted_bytes_tcf", config) == "counted");
  CHECK(value_origin(row, "twice", config) == "counted");
  CHECK(value_origin(row, "speed", config) == "measured");
  CHECK(value_origin(row, "nnz_per_s", config) == "measured");
  CHECK(row_columns().at("tiles_8x8") == "nonempty tiles, not condensed");
  CHECK(row_columns().contains("square_tiles"));
}

TEST_CASE("a histogram unfolds into a row a bin, the empty ones between included") {
  const Config config = config_of(
      "[grid]\nmatrix = \"absent_a\"\nformat = \"csr\"\n"
      "[[unfold]]\nname = \"blocks\"\nof = \"tiles_per_block_row_histogram_16x16\"\n");

  const std::vector<Row> rows = rows_with("0:1 2-3:3", config);

  REQUIRE(rows.size() == 1 + 3);
  CHECK_FALSE(rows[0].contains("blocks"));
  CHECK(rows[1].at("blocks") == "0");
  CHECK(rows[2].at("blocks") == "1");
  CHECK(rows[2].at("count") == 0);
  CHECK(rows[3].at("blocks") == "2-3");
  CHECK(rows[3].at("count") == 3);
  CHECK(rows[3].at("share") == 0.75);
  CHECK(value_origin(rows[3], "share", config) == "counted");
  CHECK(select(rows, {}).size() == 1);
  CHECK(select(rows, {{"unfolded", {"blocks", "here"}}}).size() == 3);
  CHECK(rows_with("", config).size() == 1);
  CHECK_THROWS_AS(make_rows({}, {},
                            config_of("[grid]\nmatrix = \"absent_a\"\nformat = \"csr\"\n"
                                      "[[unfold]]\nname = \"blocks\"\nof = \"tiles_per\"\n")),
                  Error);
}

}  // namespace
}  // namespace tessera
