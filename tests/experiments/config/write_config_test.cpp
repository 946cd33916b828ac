// Requests as the TOML of a config: read back, they are the points that were asked for.
#include "experiments/config/write_config.hpp"

#include <doctest/doctest.h>

#include <set>

#include "tests/planted_records.hpp"

namespace tessera {
namespace {

Config loaded(const std::string& text) {
  const TemporaryFolder folder;
  write_text(folder / "c.toml", text);
  return load_config(folder / "c.toml");
}

std::set<std::string> hashes(const Config& config) {
  std::set<std::string> found;
  for (const PlanEntry& entry : make_plan(config).entries) found.insert(entry.hash);
  return found;
}

const std::string kHead =
    "schema = 1\n[experiment]\nid = \"x\"\nbackends = [\"model\"]\n[grid]\nmatrix = [\"absent_a\", "
    "\"absent_b\"]\n";

SweepRequest request() {
  return {.backends = {"model"},
          .axes = {{"matrix", {"absent_a", "absent_b"}}, {"n", {32, 64}}},
          .kernels = requested_kernels({"csr_spmm", "acc_spmm"})};
}

TEST_CASE(
    "a request of names and numbers is a plain grid, with the points of one written by hand") {
  const WrittenConfig written = write_config(request());
  CHECK(written.text.find("kernel = [\"csr_spmm\", \"acc_spmm\"]\n") != std::string::npos);
  CHECK(written.text.find("[[case]]") == std::string::npos);
  CHECK(written.series == "kernel");
  CHECK(written.settings == std::vector<std::string>{"n"});

  const Config config = loaded(written.text);
  CHECK(config.id == written.id);
  CHECK(hashes(config) ==
        hashes(loaded(kHead + "n = [32, 64]\nkernel = [\"csr_spmm\", \"acc_spmm\"]\n")));
}

TEST_CASE("kernels with parameters are cases, and orders with parameters are tables") {
  SweepRequest asked = request();
  asked.kernels = requested_kernels({"csr_spmm", "acc_spmm(stages=3, balance=none)"});
  asked.axes.push_back({"reorder", {"none", requested_variant("reorder", "random(seed=7)")}});
  asked.sections["measure"]["l2"] = "flush";
  asked.backends = {"simulate"};
  const WrittenConfig written = write_config(asked);
  CHECK(written.series == "case");
  CHECK(written.settings == std::vector<std::string>{"n", "reorder", "reorder.seed"});
  CHECK(written.text.find("{ name = \"acc_spmm\", balance = \"none\", stages = 3 }") !=
        std::string::npos);

  const Plan plan = make_plan(loaded(written.text));
  CHECK(plan.entries.size() == 16);
  CHECK(plan.entries.back().labels.at("case") == "acc_spmm(balance=none, stages=3)");
  CHECK(plan.entries.back().point.measure.l2 == "flush");
  CHECK(std::get<DenseProduct>(plan.entries.back().point.task).kernel.params.integer("stages") ==
        3);
}

TEST_CASE("skipped combinations are left out, and all others are there once") {
  SweepRequest asked = request();
  asked.skips = {{{"kernel", {"csr_spmm"}}, {"n", {64}}}};
  const auto found = hashes(loaded(write_config(asked).text));
  const auto whole = hashes(loaded(write_config(request()).text));
  const auto skipped = hashes(loaded(kHead + "n = 64\nkernel = \"csr_spmm\"\n"));
  CHECK(found.size() == 6);
  for (const std::string& hash : whole) CHECK(found.contains(hash) != skipped.contains(hash));

  const auto error = [&](const RequestedSkip& skip) {
    asked.skips = {skip};
    return error_of([&] { write_config(asked); });
  };
  CHECK(error({{"m", {1}}}).find("--skip: unknown axis 'm'") == 0);
  CHECK(error({{"n", {65}}}).find("did you mean '64'") != std::string::npos);
  CHECK(error({{"n", {32, 64}}}) == "--skip leaves no point");
  asked.axes[0].values.emplace_back("@by_formula");
  CHECK(error({{"matrix", {"absent_a"}}}).find("@by_formula is a set") != std::string::npos);
}

TEST_CASE("the id follows from the points, and not from what is shown of them") {
  SweepRequest other = request();
  other.measures = {"time_us"};
  other.baseline = "csr_spmm";
  CHECK(write_config(other).id == write_config(request()).id);
  other.axes[1].values.emplace_back(128);
  CHECK(write_config(other).id != write_config(request()).id);
}

TEST_CASE("kernels are named, given parameters, or chosen by a pattern, and typos are refused") {
  const auto labels = [](const std::vector<std::string>& texts) {
    std::vector<std::string> found;
    for (const RequestedKernel& kernel : requested_kernels(texts)) found.push_back(kernel.label());
    return found;
  };
  using Labels = std::vector<std::string>;
  CHECK(labels({"csr_spmm", "csr_spmm", "auto"}) == Labels{"csr_spmm", "auto"});
  CHECK(labels({"acc_spmm(stages=3)"}) == Labels{"acc_spmm(stages=3)"});
  const Labels cu = labels({"cu*"});
  CHECK(std::ranges::find(cu, "cusparse") != cu.end());
  CHECK(std::ranges::find(cu, "csr_spmm") == cu.end());
  CHECK(error_of([&] { labels({"acc_smpm"}); }).find("did you mean 'acc_spmm'") !=
        std::string::npos);
  CHECK(error_of([&] { labels({"acc_spmm(stage=3)"}); }).find("did you mean 'stages'") !=
        std::string::npos);
  CHECK(error_of([&] { labels({"zz*"}); }).find("no kernel matches zz*") == 0);

  auto kernels = requested_kernels({"csr_spmm", "acc_spmm"});
  CHECK(vary_parameter("precision", {"tf32", "tf32_raw"}, kernels));
  REQUIRE(kernels.size() == 3);
  CHECK(kernels[0].label() == "csr_spmm");
  CHECK(kernels[2].label() == "acc_spmm(precision=tf32_raw)");
  CHECK_FALSE(vary_parameter("nothing", {"1"}, kernels));
  CHECK(error_of([] { requested_variant("reorder", "rcmm"); }).find("did you mean 'rcm'") !=
        std::string::npos);
}

TEST_CASE("figures show every setting once, as lines where many widths were asked for") {
  SweepRequest asked = request();
  asked.axes.push_back({"reorder", {"none", "rcm"}});
  Config config = loaded(write_config(asked).text);
  REQUIRE(config.figures.size() == 2);
  CHECK(config.figures[0].id == "sweep_reorder-none");
  CHECK(config.figures[1].where.at("reorder").value == "rcm");
  CHECK(config.figures[0].panel == "n");
  CHECK(config.figures[0].kind == "bars");

  asked = request();
  asked.axes[1].values = {32, 64, 128, 256};
  asked.baseline = "csr_spmm";
  config = loaded(write_config(asked).text);
  REQUIRE(config.figures.size() == 1);
  CHECK(config.figures[0].kind == "lines");
  CHECK(config.figures[0].panel == "matrix");
  CHECK(config.figures[0].normalise == "csr_spmm");
}

}  // namespace
}  // namespace tessera
