// Points of an SDDMM: what a config may ask of them, what they do, and that a kernel which is wrong
// is found out.
#include <doctest/doctest.h>

#include <algorithm>

#include "experiments/config/plan.hpp"
#include "experiments/points/any_kernel.hpp"
#include "experiments/run/run_point.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "tests/sddmm_choices.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// Right but for one planted fault; it sums in FP32, column by column.
class ToySddmm final : public SddmmKernel {
 public:
  explicit ToySddmm(bool is_wrong) : is_wrong_(is_wrong) {}

  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 3; }
  Arithmetic arithmetic() const override { return {}; }
  std::vector<float> emulate(const PackedMatrix& packed, const DenseMatrix& x, const DenseMatrix& y,
                             const Generation&) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    std::vector<float> s;
    for (std::int64_t row = 0; row < a.rows; ++row)
      for (const std::int32_t col : a.row_cols(row)) {
        float& sum = s.emplace_back(0.0f);
        for (std::int64_t k = 0; k < x.cols; ++k) sum = std::fma(x.at(row, k), y.at(col, k), sum);
      }
    if (is_wrong_) s.back() += 1;
    return s;
  }

 private:
  bool is_wrong_;
};

const Register<SddmmKernel> toy_sddmm{{
    .name = "toy_sddmm",
    .summary = "wrong on request, for the test of the checks",
    .params = {{"wrong", false, ""}},
    .make = [](const Params& params) { return std::make_unique<ToySddmm>(params.flag("wrong")); },
}};

const std::string kHead = "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\"]\n";

Plan plan_of(const std::string& rest, const std::vector<std::string>& backends = {}) {
  const TemporaryFolder folder;
  write_text(folder / "c.toml", kHead + rest);
  return make_plan(load_config(folder / "c.toml"), backends);
}

Record run(const std::string& kernel, const std::string& more = "",
           const std::string& backend = "emulate") {
  const Plan plan = plan_of(
      "[grid]\nmatrix = \"uniform(rows=90, cols=70, density=0.05)\"\nn = 24\n"
      "kernel = " +
          kernel + "\n" + more,
      {backend});
  return PointRunner().run(plan.entries.at(0).point).record;
}

TEST_CASE("no kernel's name is of an SDDMM and of another product") {
  for (const std::string& name : Registry<SddmmKernel>::instance().names()) {
    CHECK_MESSAGE(!Registry<SpmmKernel>::instance().contains(name), name);
    CHECK_MESSAGE(!Registry<SpgemmKernel>::instance().contains(name), name);
    CHECK(std::ranges::count(kernel_names(), name) == 1);
  }
  CHECK(is_sampled_product("rows_sddmm"));
  CHECK_FALSE(is_sampled_product("rows_spmm"));
  CHECK(format_read_by("tessera_sddmm") == "mosaic");
  CHECK(format_read_by("csr_spmm") == "csr");
  CHECK_THROWS_AS(kernel_params("tessera_sdmm"), Error);
}

TEST_CASE("a point of an SDDMM has a width and a format, and no right factor") {
  const Plan plan = plan_of("[grid]\nmatrix = \"absent_a\"\nkernel = \"toy_sddmm\"\nn = [8, 16]\n",
                            {"emulate", "gpu", "simulate"});
  REQUIRE(plan.entries.size() == 6);
  CHECK(to_json(plan.entries[0].point).dump() ==
        R"({"backend":"emulate","check":true,"device":"h200","format":{"name":"csr"},)"
        R"("kernel":{"name":"toy_sddmm","wrong":false},"matrix":"absent_a","n":8,)"
        R"("reorder":{"name":"none"},"seed":42,"values":"auto"})");
  CHECK(task_text(plan.entries[0].point) == "n=8 none toy_sddmm");
  for (const PlanEntry& entry : plan.entries) {
    CHECK(std::holds_alternative<SampledProduct>(entry.point.task));
    const Json json = to_json(entry.point);
    CHECK(to_json(point_from_json(Json::parse(json.dump()))) == json);
  }
  Json narrow = to_json(plan.entries[0].point);
  narrow["n"] = 0;
  CHECK_THROWS_AS(point_from_json(narrow), Error);
}

TEST_CASE("a right factor does not apply to an SDDMM, and a note says so") {
  const Plan plan = plan_of(
      "[grid]\nmatrix = \"absent_a\"\nright = \"transpose\"\n"
      "kernel = [\"toy_sddmm\", \"csr_spgemm\"]\n");
  CHECK(std::ranges::count(plan.notes,
                           "right does not apply to kernel toy_sddmm and is left out there") == 1);
}

TEST_CASE("a format that the kernel of an SDDMM does not read is refused") {
  CHECK_THROWS_AS(plan_of("[grid]\nmatrix = \"absent_a\"\nkernel = \"toy_sddmm\"\n"
                          "format = \"mosaic\"\n"),
                  Error);
}

TEST_CASE("an emulated SDDMM is compared with the truth, whatever the order of A") {
  for (const std::string order : {"none", "degree", "rcm", "random"}) {
    for (const SddmmChoice& choice : sddmm_choices()) {
      if (choice.is_library()) continue;
      CAPTURE(order);
      CAPTURE(choice.text());
      const std::string matrix = order == "rcm" ? "poisson2d(nx=9, ny=8)" : "rmat(scale=7)";
      Plan plan = plan_of("[grid]\nmatrix = \"" + matrix +
                          "\"\nn = 24\nkernel = \"toy_sddmm\"\n"
                          "reorder = \"" +
                          order + "\"\n");
      Point point = plan.entries.at(0).point;
      auto& product = std::get<SampledProduct>(point.task);
      product.kernel = {choice.kernel, resolve_kernel(choice.kernel, choice.params)};
      product.format = {format_read_by(choice.kernel), {}};
      product.format.params = Registry<Format>::instance().resolve(product.format.name, {});
      const Record record = PointRunner().run(point).record;
      CHECK(record.status == "ok");
      CHECK(record.origin == "emulated");
      CHECK(std::get<ProductCheck>(record.check).compared == record.matrix->nnz);
    }
  }
}

TEST_CASE("a wrong element of an SDDMM makes the point wrong, and says where it is") {
  CHECK(run("\"toy_sddmm\"").status == "ok");
  const Record wrong = run("{ name = \"toy_sddmm\", wrong = true }");
  CHECK(wrong.status == "wrong");
  REQUIRE(wrong.reason.has_value());
  CHECK(wrong.reason->find("1 of ") == 0);
  CHECK(wrong.reason->find("of A, ") != std::string::npos);
  CHECK(run("{ name = \"toy_sddmm\", wrong = true }", "[check]\nenabled = false\n").status == "ok");
}

TEST_CASE("an SDDMM is modelled and simulated, and counts two operations a product") {
  for (const char* backend : {"model", "simulate"})
    for (const char* kernel : {"\"tessera_sddmm\"", "\"rows_sddmm\""}) {
      CAPTURE(backend);
      CAPTURE(kernel);
      const Record record = run(kernel, "", backend);
      CHECK(record.status == "ok");
      REQUIRE(record.found.prediction.has_value());
      const double us = record.found.prediction->time_us;
      CHECK(us > 0);
      CHECK(*record.gflops ==
            doctest::Approx(2.0 * 24 * static_cast<double>(record.matrix->nnz) / (1e3 * us)));
    }
  CHECK(run("\"toy_sddmm\"", "", "simulate").status == "skipped");
}

TEST_CASE("X and Y differ, and each seed has its own") {
  const auto smape = [&](int seed) {
    return std::get<ProductCheck>(
               run("\"tessera_sddmm\"", "seed = " + std::to_string(seed) + "\n").check)
        .smape_pct;
  };
  CHECK(smape(1) == smape(1));
  CHECK(smape(1) != smape(2));
}

}  // namespace
}  // namespace tessera
