// `as = "published"`: the choices of a paper under a kernel's name, beside our own defaults.
#include "kernels/published.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "experiments/config/plan.hpp"
#include "experiments/points/any_kernel.hpp"
#include "experiments/points/published_choices.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// The points of a config whose grid is these lines.
Plan plan_of(const std::string& grid) {
  const TemporaryFolder folder;
  write_text(folder / "c.toml",
             "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\"]\n"
             "[grid]\nmatrix = \"poisson2d\"\n" +
                 grid);
  return make_plan(load_config(folder / "c.toml"));
}

std::string error_of(const std::string& grid) {
  try {
    plan_of(grid);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const DenseProduct& only_product(const Plan& plan) {
  REQUIRE(plan.entries.size() == 1);
  return dense_product(plan.entries.front().point);
}

std::string value(const Variant& variant, const std::string& param) {
  return to_text(variant.params.values().at(param));
}

TEST_CASE("a published system takes the paper's choices of kernel and format") {
  const Plan plan = plan_of(R"(kernel = { name = "cutespmm", as = "published" })");
  const DenseProduct& product = only_product(plan);
  CHECK(value(product.kernel, "mma") == "m16n8k4");
  CHECK(value(product.kernel, "coarsen") == "32");
  CHECK(value(product.kernel, "stages") == "1");
  CHECK(value(product.format, "tile_cols") == "16");
}

TEST_CASE("Acc-SpMM as published shares its buffers in a thread block and balances by equation 4") {
  const Plan plan = plan_of(R"(kernel = { name = "acc_spmm", as = "published" })");
  const DenseProduct& product = only_product(plan);
  CHECK(value(product.kernel, "pipeline") == "least_bubble");
  CHECK(value(product.kernel, "buffers") == "block");
  CHECK(value(product.kernel, "cache") == "ca");
  CHECK(value(product.kernel, "store") == "wt");
  CHECK(value(product.kernel, "balance") == "adaptive");
  CHECK(value(product.kernel, "max_blocks") == "32");
  CHECK(plan.entries.front().point.reorder.name == "affinity");
}

TEST_CASE("a published system brings its order unless the config gives one") {
  const std::string kernel = R"(kernel = { name = "smat", as = "published" })";
  const Plan own = plan_of(kernel);
  REQUIRE(own.entries.size() == 1);
  CHECK(own.entries[0].point.reorder.name == "jaccard");
  CHECK(value(own.entries[0].point.reorder, "block_cols") == "16");
  const Plan given = plan_of(kernel + "\nreorder = [\"none\", \"rcm\"]");
  REQUIRE(given.entries.size() == 2);
  CHECK(given.entries[0].point.reorder.name == "none");
  CHECK(given.entries[1].point.reorder.name == "rcm");
}

TEST_CASE("published tsparse counts by products, and its twin keeps all but the cores") {
  for (const std::string cores : {"tensor", "scalar"}) {
    const Plan plan =
        plan_of("right = \"self\"\nkernel = { name = \"tsparse\", as = \"published\"" +
                std::string(cores == "tensor" ? "" : ", cores = \"scalar\"") + " }");
    REQUIRE(plan.entries.size() == 1);
    const Variant& kernel = sparse_product(plan.entries[0].point).kernel;
    CHECK(value(kernel, "cores") == cores);
    CHECK(value(kernel, "counting") == "product");
    CHECK(value(kernel, "multiplication") == "pairs");
    CHECK(value(kernel, "range") == "refuse");
  }
}

TEST_CASE("what the config gives overrides the published choice and no other") {
  const Plan plan = plan_of(R"(kernel = { name = "cutespmm", as = "published", coarsen = 64 })");
  CHECK(value(only_product(plan).kernel, "coarsen") == "64");
  CHECK(value(only_product(plan).kernel, "stages") == "1");
}

TEST_CASE("the default variant stands beside the published one in a grid") {
  const Plan plan = plan_of("kernel = \"cutespmm\"\nas = [\"default\", \"published\"]");
  REQUIRE(plan.entries.size() == 2);
  CHECK(value(dense_product(plan.entries[0].point).kernel, "coarsen") == "128");
  CHECK(value(dense_product(plan.entries[1].point).kernel, "coarsen") == "32");
}

TEST_CASE("the published point is the one that spells out every choice") {
  const Plan named = plan_of(R"(kernel = { name = "tca_spmm", as = "published" })");
  const Plan spelt = plan_of(
      R"(kernel = { name = "tca_spmm", precision = "fp16", method = "auto", warps_per_row = 0, )"
      R"(blocks = "nonzeros", output = "buffer", tile_cols = 64 })");
  CHECK(named.entries.at(0).hash == spelt.entries.at(0).hash);
}

TEST_CASE("what cuTeSpMM's paper claims is held against its published kernel") {
  const DenseProduct published =
      only_product(plan_of(R"(kernel = { name = "cutespmm", as = "published" })"));
  for (const char* name :
       {"cutespmm_fig7", "cutespmm_fig9_10", "cutespmm_tables3_4", "cutespmm_kernel"}) {
    CAPTURE(name);
    const Config config = load_config(name);
    std::set<std::string> judged;  // cases
    for (const Expect& expect : config.expects)
      judged.insert(expect.where.at("case").value.get<std::string>());
    int points = 0;
    for (const PlanEntry& entry : make_plan(config).entries) {
      const DenseProduct& product = dense_product(entry.point);
      const std::string& label = entry.labels.at("case");
      if (product.kernel.name != "cutespmm" || !judged.contains(label)) continue;
      CAPTURE(label);
      CHECK(product.kernel.params.values() == published.kernel.params.values());
      CHECK(product.format.params.values() == published.format.params.values());
      ++points;
    }
    CHECK(points > 0);
  }
}

TEST_CASE("a kernel without a paper is refused with the names of the published systems") {
  const std::string error = error_of(R"(kernel = { name = "csr_spmm", as = "published" })");
  CHECK(error.find("c.toml:7:") != std::string::npos);
  CHECK(error.find("csr_spmm is no published system") != std::string::npos);
  CHECK(error.find("acc_spmm, cutespmm, smat, tca_spmm, tsparse") != std::string::npos);
}

TEST_CASE("a misspelt `as` gets the nearest value") {
  const std::string error = error_of(R"(kernel = { name = "smat", as = "publised" })");
  CHECK(error.find("published") != std::string::npos);
  CHECK(error.find("c.toml:7:") != std::string::npos);
}

TEST_CASE("every published choice is a parameter of its kernel and states its source") {
  for (const std::string& name : Registry<Published>::instance().names()) {
    CAPTURE(name);
    const auto system = Registry<Published>::instance().make(name);
    CHECK_FALSE(system->paper.empty());
    CHECK_FALSE(system->choices.empty());
    for (const Published::Choice& choice : system->choices) {
      CAPTURE(choice.key);
      CHECK_FALSE(choice.source.empty());
      if (!choice.key.starts_with("kernel.")) continue;
      const std::string param = choice.key.substr(7);
      CHECK_NOTHROW(resolve_kernel(name, {{param, choice.value}}));
    }
  }
}

/// The column `as` of the only point of a grid.
std::string told_of(const std::string& grid) {
  const Plan plan = plan_of(grid);
  REQUIRE(plan.entries.size() == 1);
  return choices_of(to_json(plan.entries.front().point));
}

TEST_CASE("the column as says published of every published system") {
  for (const std::string& name : Registry<Published>::instance().names()) {
    CAPTURE(name);
    CHECK(told_of(fmt::format(R"(kernel = {{ name = "{}", as = "published" }})", name)) ==
          "published");
  }
}

TEST_CASE("the column as says published where every choice is spelt out") {
  for (const std::string& name : Registry<Published>::instance().names()) {
    CAPTURE(name);
    std::string grid = fmt::format("kernel = \"{}\"\n", name);
    const auto system = Registry<Published>::instance().make(name);
    for (const Published::Choice& choice : system->choices) {
      const bool quoted = std::holds_alternative<std::string>(choice.value);
      const std::string mark = quoted ? "\"" : "";
      const std::string key = choice.key.find('.') == std::string::npos
                                  ? choice.key
                                  : fmt::format("\"{}\"", choice.key);
      grid += fmt::format("{} = {}{}{}\n", key, mark, to_text(choice.value), mark);
    }
    CHECK(told_of(grid) == "published");
  }
}

TEST_CASE("one choice that is not the paper's makes a point other than published") {
  const std::string published = R"(name = "smat", as = "published")";
  CHECK(told_of("kernel = { " + published + ", stages = 4 }") == "other");
  CHECK(told_of("kernel = { " + published + " }\nreorder = \"rcm\"") == "other");
  CHECK(told_of("kernel = { " + published + " }\n" +
                R"(reorder = { name = "jaccard", block_cols = 8, apply = "rows" })") == "other");
  CHECK(told_of("kernel = { " + published + " }\n" +
                R"(format = { name = "bcsr", block_rows = 8, block_cols = 16 })") == "other");
}

TEST_CASE("a paper without an order is as published in any order") {
  const std::string grid = R"(kernel = { name = "cutespmm", as = "published" })";
  CHECK(told_of(grid + "\nreorder = \"rcm\"") == "published");
}

TEST_CASE("our own choices are the default, and a kernel without a paper says nothing") {
  CHECK(told_of("kernel = \"cutespmm\"\nreorder = \"rcm\"") == "default");
  CHECK(told_of("kernel = \"cutespmm\"\ncoarsen = 64") == "other");
  CHECK(told_of("kernel = \"csr_spmm\"").empty());
  CHECK(choices_of({{"format", {{"name", "hrpb"}}}}).empty());
}

}  // namespace
}  // namespace tessera
