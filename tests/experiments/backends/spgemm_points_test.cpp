// Points whose B and C are sparse: what a config may ask of them, what they do, and that a kernel
// which is wrong in values, pattern or order is found out.
#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <tuple>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/check_result.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/points/any_kernel.hpp"
#include "experiments/run/run_point.hpp"
#include "experiments/tables/rows.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "reorder/reordering.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// A right kernel but for one planted fault.
class ToySpgemm final : public SpgemmKernel {
 public:
  explicit ToySpgemm(std::string fault) : fault_(std::move(fault)) {}

  int version() const override { return 7; }
  Arithmetic arithmetic() const override { return {}; }
  bool keeps_zeros() const override { return fault_ != "zeros"; }

  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b, const Generation&) const override {
    const CsrMatrix c = multiply_rows(a, b);
    std::vector<std::int64_t> offsets(c.row_offsets.begin(), c.row_offsets.end());
    std::vector<std::int32_t> cols(c.col_indices.begin(), c.col_indices.end());
    std::vector<float> values(c.values.begin(), c.values.end());
    if (fault_ == "value") values.front() *= 1.001f;
    if (fault_ == "order") std::swap(cols.at(0), cols.at(1));
    if (fault_ == "missing" || fault_ == "zeros") {  // the first cell
      cols.erase(cols.begin());
      values.erase(values.begin());
      for (std::size_t row = 1; row < offsets.size(); ++row) --offsets[row];
    }
    if (fault_ == "extra") {  // a zero in the last row, in the first column that it does not have
      std::int32_t col = 0;
      auto at = cols.begin() + c.row_offsets[c.rows - 1];
      for (; at != cols.end() && *at == col; ++at) ++col;
      values.insert(values.begin() + (at - cols.begin()), 0);
      cols.insert(at, col);
      ++offsets.back();
    }
    return {c.rows, fault_ == "shape" ? c.cols + 1 : c.cols, offsets, cols, values};
  }

 private:
  std::string fault_;
};

const Register<SpgemmKernel> toy_spgemm{{
    .name = "toy_spgemm",
    .summary = "wrong on request, for the test of the checks",
    .params = {{"fault",
                std::string("none"),
                "",
                {"none", "value", "order", "missing", "zeros", "extra", "shape"}}},
    .make = [](const Params& params) { return std::make_unique<ToySpgemm>(params.text("fault")); },
}};

const std::string kHead = "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\"]\n";
const std::string kGrid = "[grid]\nmatrix = \"absent_a\"\nkernel = \"toy_spgemm\"\n";

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

TEST_CASE("no kernel's name is of both kinds of product") {
  for (const std::string& name : Registry<SpgemmKernel>::instance().names())
    CHECK_MESSAGE(!Registry<SpmmKernel>::instance().contains(name), name);
  CHECK(is_sparse_product("csr_spgemm"));
  CHECK_FALSE(is_sparse_product("csr_spmm"));
  CHECK_FALSE(is_sparse_product(kAuto));
}

TEST_CASE("a point with a sparse B has a right factor, and neither a width nor a format") {
  const Plan plan = make_plan(
      config_of(kGrid + "right = [\"self\", \"transpose\", \"absent_b\"]\nfault = \"value\"\n"),
      {"emulate", "gpu", "simulate"});

  REQUIRE(plan.entries.size() == 9);
  CHECK(to_json(plan.entries[0].point).dump() ==
        R"({"backend":"emulate","check":true,"device":"h200",)"
        R"("kernel":{"fault":"value","name":"toy_spgemm"},"matrix":"absent_a",)"
        R"("reorder":{"name":"none"},"right":"self","seed":42,"values":"auto"})");
  CHECK(task_text(plan.entries[0].point) == "x self none toy_spgemm");
  CHECK(sparse_product(plan.entries[3].point).right == "transpose");
  CHECK(sparse_product(plan.entries[6].point).right == "absent_b");
  for (const PlanEntry& entry : plan.entries) {
    CHECK(std::holds_alternative<SparseProduct>(entry.point.task));
    const Json json = to_json(entry.point);
    CHECK_FALSE(json.contains("n"));
    CHECK_FALSE(json.contains("format"));
    CHECK(to_json(point_from_json(Json::parse(json.dump()))) == json);
  }
}

TEST_CASE("without a word about it, A is multiplied by itself") {
  const Plan plan = make_plan(config_of(kGrid));
  CHECK(sparse_product(plan.entries.at(0).point).right == kSelf);
}

TEST_CASE("of two kinds of kernel in one config, each gets what is its own, and a note says so") {
  const Plan plan = make_plan(config_of(
      "[grid]\nmatrix = \"absent_a\"\nkernel = [\"csr_spmm\", \"toy_spgemm\"]\nn = [8, 16]\n"
      "right = \"transpose\"\n"));

  REQUIRE(plan.entries.size() == 3);
  CHECK(dense_product(plan.entries[0].point).n == 8);
  CHECK(sparse_product(plan.entries[2].point).right == "transpose");
  CHECK(std::ranges::count(plan.notes,
                           "n does not apply to kernel toy_spgemm and is left out "
                           "there") == 1);
  CHECK(std::ranges::count(plan.notes,
                           "right does not apply to kernel csr_spmm and is left out "
                           "there") == 1);
}

TEST_CASE("a setting that does not apply to a sparse product is refused with its place") {
  CHECK(error_of(kGrid) == "no error");
  CHECK(error_of(kGrid + "format = \"csr\"\n") ==
        "c.toml:8:10: kernel toy_spgemm multiplies two sparse matrices as they are, and reads no "
        "format");
  CHECK(error_of(kGrid + "right = 3\n") == "c.toml:8:9: right takes a name, not 3");
  CHECK(error_of(kGrid + "fault = \"bad\"\n").find("bad") != std::string::npos);
  CHECK(error_of("[grid]\nmatrix = \"absent_a\"\nkernel = \"csr_spgem\"\n")
            .find("unknown kernel 'csr_spgem', did you mean 'csr_spgemm'") != std::string::npos);
  CHECK(error_of("[grid]\nmatrix = \"absent_a\"\nformat = \"csr\"\nright = \"self\"\n", {"pack"}) ==
        "c.toml:8:9: right is of a product, and backend pack only packs A");
}

TEST_CASE("the JSON form of a sparse product takes no key of a dense one") {
  const Json good = to_json(make_plan(config_of(kGrid)).entries[0].point);
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

  CHECK(error("right", "transpose") == "no error");
  CHECK(error("right", 2) == "right: text was expected, not 2");
  CHECK(error("against_fp32", true) == "no error");
  CHECK(error("n", 8).starts_with("unknown key of a point 'n'"));
  CHECK(error("format", {{"name", "csr"}}).starts_with("unknown key of a point 'format'"));
  CHECK(error("unpermute", true).starts_with("unknown key of a point 'unpermute'"));
  CHECK(error("kernel", {{"name", "csr_spgemm"}}) == "no error");
  CHECK(error("kernel", {{"name", "csr_spmm"}}) == "a point needs 'format'");
}

Point point_of(const std::string& matrix, const std::string& right, const std::string& fault) {
  Point point;
  point.backend = "emulate";
  point.matrix = matrix;
  point.reorder.name = "none";
  point.device = "h200";
  point.task = SparseProduct{{parse_values("normal"), 5},
                             right,
                             {"toy_spgemm", resolve_kernel("toy_spgemm", {{"fault", fault}})}};
  return point;
}

constexpr const char* kSquare = "uniform(rows=60, cols=60, per_row=5)";
constexpr const char* kWide = "uniform(rows=30, cols=60, per_row=9)";
constexpr const char* kNarrow = "uniform(rows=60, cols=25, per_row=3)";

TEST_CASE("a sparse product is computed, counted and checked for every kind of right factor") {
  PointRunner runner;
  std::set<std::string> ids;
  for (const auto& [matrix, right] :
       {std::pair{kSquare, kSelf}, {kSquare, kTranspose}, {kWide, kTranspose}, {kWide, kNarrow}}) {
    CAPTURE(matrix);
    CAPTURE(right);
    const Point point = point_of(matrix, right, "none");
    const Json record = runner.run(point).record;
    INFO(record.dump(1));
    REQUIRE(record["status"] == "ok");
    CHECK(record["origin"] == "emulated");
    CHECK(record["kernel_version"] == 7);
    CHECK(record["check"]["missing"] == 0);
    CHECK(record["check"]["extra"] == 0);
    CHECK(record["check"]["compared"] == record["nnz_c"]);
    CHECK(record["check"]["smape_pct"] > 0);
    CHECK(record["compression"].get<double>() ==
          doctest::Approx(record["products"].get<double>() / record["nnz_c"].get<double>()));
    CHECK(record.contains("right") == (right == std::string(kNarrow)));
    CHECK(record["point_id"] == runner.point_id(point));
    ids.insert(record["point_id"]);
  }
  CHECK(ids.size() == 4);
}

Point masked_point(const std::string& matrix, const std::string& right, const std::string& mask,
                   const std::string& fault = "none") {
  Point point = point_of(matrix, right, fault);
  std::get<SparseProduct>(point.task).mask = mask;
  return point;
}

TEST_CASE("a sparse product under a mask has the cells of A, or of another matrix") {
  PointRunner runner;
  const Json whole = runner.run(point_of(kSquare, kSelf, "none")).record;
  std::set<std::string> ids{whole["point_id"]};
  for (const auto& [matrix, right, mask, cells] :
       {std::tuple{kSquare, kSelf, kSelf, 300},
        {kSquare, kTranspose, kSelf, 300},
        {kSquare, kSelf, "uniform(rows=60, cols=60, per_row=9)", 540},
        {kWide, kNarrow, "uniform(rows=30, cols=25, per_row=4)", 120}}) {
    CAPTURE(mask);
    const Point point = masked_point(matrix, right, mask);
    const Json record = runner.run(point).record;
    INFO(record.dump(1));
    REQUIRE(record["status"] == "ok");
    CHECK(record["nnz_c"] == cells);
    CHECK(record["check"]["compared"] == cells);
    CHECK(record["check"]["smape_pct"] > 0);
    CHECK(record["params"]["mask"] == mask);
    CHECK(record["point_id"] == runner.point_id(point));
    ids.insert(record["point_id"]);
  }
  CHECK(ids.size() == 5);
  CHECK(whole["params"].contains("mask") == false);
}

TEST_CASE("under a mask a wrong value is found out, and a zero that is too many is not") {
  const auto status = [](const Point& point) -> std::string {
    const Json record = PointRunner().run(point).record;
    return record["status"];
  };
  const char* all = "uniform(rows=60, cols=60, per_row=60)";
  CHECK(status(masked_point(kSquare, kSelf, all)) == "ok");
  CHECK(status(masked_point(kSquare, kSelf, all, "extra")) == "ok");
  CHECK(status(masked_point(kSquare, kSelf, all, "value")) == "wrong");
  CHECK(status(masked_point(kSquare, kSelf, all, "missing")) == "wrong");
}

TEST_CASE("a mask that does not fit C, or whose order is unknown, is skipped with the reason") {
  const auto reason = [](const Point& point) -> std::string {
    const Json record = PointRunner().run(point).record;
    CHECK(record["status"] == "skipped");
    return record["reason"];
  };
  CHECK(reason(masked_point(kWide, kTranspose, kSelf)) == "A B is 30 x 30, and its mask 30 x 60");
  CHECK(reason(masked_point(kSquare, kSelf, kWide)) == "A B is 60 x 60, and its mask 30 x 60");
  Point reordered = masked_point(kSquare, kSelf, "uniform(rows=60, cols=60, per_row=9)");
  reordered.reorder = {"rcm", Registry<Reordering>::instance().resolve("rcm", {})};
  CHECK(reason(reordered).starts_with("a mask that is a matrix of its own is in the order of the"));
  std::get<SparseProduct>(reordered.task).mask = kSelf;
  const Json ordered = PointRunner().run(reordered).record;
  CHECK(ordered["status"] == "ok");
  Point simulated = masked_point(kSquare, kSelf, kSelf);
  simulated.backend = "simulate";
  CHECK(reason(simulated) == "products under a mask describe no work");
}

TEST_CASE("a config and the JSON form of a point may have a mask") {
  const Plan plan = make_plan(config_of(kGrid + "mask = [\"self\", \"absent_m\"]\n"));
  REQUIRE(plan.entries.size() == 2);
  CHECK(sparse_product(plan.entries[0].point).mask == kSelf);
  CHECK(sparse_product(plan.entries[1].point).mask == "absent_m");
  CHECK(task_text(plan.entries[0].point) == "x self under self none toy_spgemm");
  Json json = to_json(plan.entries[1].point);
  CHECK(json["mask"] == "absent_m");
  CHECK(to_json(point_from_json(json)) == json);
  json["mask"] = "";
  CHECK_THROWS_WITH_AS(point_from_json(json), "mask: a point has it only when it is not empty",
                       Error);
  CHECK(error_of("[grid]\nmatrix = \"absent_a\"\nformat = \"csr\"\nmask = \"self\"\n", {"pack"}) ==
        "c.toml:8:8: mask is of a product, and backend pack only packs A");
}

TEST_CASE("the right factor's values are drawn by themselves, and the products are those of B") {
  const Json record = PointRunner().run(point_of(kSquare, kSquare, "none")).record;
  const Json self = PointRunner().run(point_of(kSquare, kSelf, "none")).record;

  REQUIRE(record["status"] == "ok");
  CHECK(record["products"] == self["products"]);
  CHECK(record["check"]["worst"] != self["check"]["worst"]);
}

TEST_CASE("a reordered sparse product is the product of what was reordered") {
  const auto reordered = [](const char* matrix, const char* right, const char* reorder) -> Json {
    Point point = point_of(matrix, right, "none");
    point.reorder = {reorder, Registry<Reordering>::instance().resolve(reorder, {})};
    return PointRunner().run(point).record;
  };

  const Json plain = PointRunner().run(point_of(kSquare, kSelf, "none")).record;
  const Json rcm = reordered(kSquare, kSelf, "rcm");
  CHECK(rcm["status"] == "ok");
  CHECK(rcm["nnz_c"] == plain["nnz_c"]);
  CHECK(reordered(kWide, kTranspose, "degree")["status"] == "ok");
  CHECK(reordered(kWide, kNarrow, "degree")["status"] == "ok");
}

TEST_CASE("a product that the shapes do not allow is skipped with the reason") {
  const Json self = PointRunner().run(point_of(kWide, kSelf, "none")).record;
  CHECK(self["status"] == "skipped");
  CHECK(self["reason"] == "A A needs a square A, and A is 30 x 60");
  const Json other = PointRunner().run(point_of(kWide, kWide, "none")).record;
  CHECK(other["status"] == "skipped");
  CHECK(other["reason"] == "A has 60 columns and B 30 rows");

  Point simulated = point_of(kSquare, kSelf, "none");
  simulated.backend = "simulate";
  const Json record = PointRunner().run(simulated).record;
  CHECK(record["status"] == "skipped");
  CHECK(record["reason"] == "this kernel does not describe its work");
}

TEST_CASE("a sparse C that is wrong in values, pattern, order or shape is found out") {
  const auto reason = [](const char* fault) {
    const Json record = PointRunner().run(point_of(kSquare, kSelf, fault)).record;
    CHECK(record["status"] == "wrong");
    return record.value("reason", "");
  };

  CHECK(reason("value").starts_with("1 of "));
  CHECK(reason("value").find("row 0 of A") != std::string::npos);
  CHECK(reason("order").starts_with("C is no valid matrix: "));
  CHECK(reason("missing").find("C has another pattern: 1 cells are missing, 0 are extra") !=
        std::string::npos);
  CHECK(reason("extra") == "C has another pattern: 0 cells are missing, 1 are extra");
  CHECK(reason("shape") == "C is 60 x 61, not 60 x 60");
}

TEST_CASE("a kernel that drops zeros may leave out what is zero, and nothing else") {
  const TemporaryFolder folder;
  const std::string head = "%%MatrixMarket matrix coordinate real general\n2 2 4\n";
  write_text(folder / "zero.mtx", head + "1 1 1\n1 2 1\n2 1 -1\n2 2 -1\n");
  write_text(folder / "one.mtx", head + "1 1 1\n1 2 1\n2 1 1\n2 2 1\n");
  const auto status = [&](const char* file, const char* fault) {
    Point point = point_of(folder / file, kSelf, fault);
    std::get<SparseProduct>(point.task).values = parse_values("stored");
    return PointRunner().run(point).record.status;
  };

  CHECK(status("zero.mtx", "zeros") == "ok");
  CHECK(status("zero.mtx", "missing") == "wrong");
  CHECK(status("one.mtx", "zeros") == "wrong");
}

TEST_CASE("bits of sparse matrices differ by value, and where only one has a cell") {
  const CsrMatrix c{2, 3, std::vector<std::int64_t>{0, 2, 3}, std::vector<std::int32_t>{0, 2, 1},
                    std::vector<float>{1, 2, 3}};
  const CsrMatrix other{2, 3, std::vector<std::int64_t>{0, 2, 4},
                        std::vector<std::int32_t>{0, 1, 1, 2}, std::vector<float>{1, 5, 4, 6}};

  CHECK(to_json(compare_bits(c, c)) == Json{{"compared", 3}, {"different", 0}});
  const Json bits = compare_bits(c, other);
  CHECK(bits["compared"] == 5);
  CHECK(bits["different"] == 4);
  CHECK(bits["first"] == Json{{"row", 0}, {"col", 1}, {"computed", "absent"}, {"expected", 5.0f}});
}

TEST_CASE(
    "times with and without a pool or a structure, memory and stages of a sparse product are "
    "columns") {
  const Config config = config_of(kGrid + "[[unfold]]\nname = \"stage\"\nof = \"stages\"\n");
  const Plan plan = make_plan(config);
  RecordSet records;
  records.points.push_back(
      {{"params_hash", plan.entries.at(0).hash},
       {"params", to_json(plan.entries.at(0).point)},
       {"status", "ok"},
       {"origin", "measured"},
       {"time", {{"median_us", 9.0}}},
       {"time_pool", {{"median_us", 3.0}}},
       {"time_again", {{"median_us", 2.0}}},
       {"products", 500},
       {"memory", {{"peak_bytes", 2500000}}},
       {"stages", {{{"name", "count rows"}, {"us", 1.5}}, {{"name", "fill"}, {"us", 4.5}}}}});

  const std::vector<Row> rows = make_rows(plan, records, config);

  REQUIRE(rows.size() == 3);
  CHECK(rows[1].at("stage") == "count rows");
  CHECK(rows[2].at("stage") == "fill");
  CHECK(rows[2].at("count") == 4.5);
  CHECK(rows[2].at("share") == 0.75);
  CHECK(value_origin(rows[2], "share", config) == "measured");
  const Row& row = rows[0];
  CHECK(row.at("right") == "self");
  CHECK(row.at("time_us") == 9.0);
  CHECK(row.at("pool_us") == 3.0);
  CHECK(row.at("again_us") == 2.0);
  CHECK(row.at("peak_mb") == 2.5);
  CHECK(row.at("stage_count_rows_us") == 1.5);
  CHECK(value_origin(row, "products", config) == "counted");
  CHECK(value_origin(row, "pool_us", config) == "measured");
  CHECK(value_origin(row, "again_us", config) == "measured");
  CHECK(row_columns().contains("kernel.fault"));
}

TEST_CASE("backend simulate predicts the time of kernels that describe their work") {
  for (const char* kernel : {"row_spgemm", "tsparse"}) {
    CAPTURE(kernel);
    Point point;
    point.backend = "simulate";
    point.matrix = "uniform(rows=60, cols=60, per_row=5)";
    point.reorder.name = "none";
    point.device = "h200";
    point.task = SparseProduct{{parse_values("normal")},
                               kSelf,
                               {kernel, Registry<SpgemmKernel>::instance().resolve(kernel, {})}};
    const Json record = PointRunner().run(point).record;
    INFO(record.dump(1));
    REQUIRE(record["status"] == "ok");
    CHECK(record["prediction"]["time_us"] > 0);
  }
}

}  // namespace
}  // namespace tessera
