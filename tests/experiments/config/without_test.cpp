// A config on a machine that lacks a GPU or the files of its matrices.
#include <doctest/doctest.h>

#include <filesystem>

#include "experiments/config/needs.hpp"
#include "tests/planted_records.hpp"

namespace tessera {
namespace {

const char* const kText = R"toml(schema = 1
[experiment]
id = "c"
backends = ["simulate", "gpu"]
[grid]
matrix = ["@far", "poisson2d(nx=8)"]
n = [32, 128]
kernel = ["csr_spmm"]
[table]
columns = ["matrix"]
where = { backend = "gpu" }
[[figure]]
id = "both"
kind = "bars"
x = "matrix"
y = "gflops"
series = "kernel"
where = { backend = ["gpu", "simulate"] }
[[figure]]
id = "measured"
kind = "bars"
x = "matrix"
y = "gflops"
series = "kernel"
normalise = "cusparse"
where = { backend = ["gpu"] }
[[expect]]
name = "a claim"
source = "here"
column = "gflops"
where = { backend = "gpu" }
value = 1
[without.data.grid]
n = [16]
[without.gpu.figure.measured]
normalise = "csr_spmm"
[[without.gpu.case]]
name = "more"
)toml";

/// The config of kText with its set of absent matrices.
class TwoFolders {
 public:
  TwoFolders() {
    std::filesystem::create_directories(folder_ / "sets");
    write_text(folder_ / "sets/far.toml",
               "schema = 1\n[set]\nname = \"far\"\nmatrix = [\"absent_a\", "
               "\"shuffle(of=absent_b)\"]\nstand_in = [\"rmat(scale=4)\"]\n");
  }
  Config load(const Without& without, const std::vector<std::string>& sets = {},
              const std::string& text = kText) const {
    write_text(folder_ / "c.toml", text);
    return load_config(folder_ / "c.toml", sets, without);
  }

 private:
  TemporaryFolder folder_;
};

Json widths(const Config& config) {
  Json values = Json::array();
  for (const Axis& axis : config.grid)
    if (axis.name == "n")
      for (const Settings& choice : axis.choices) values.push_back(choice.at("n").value);
  return values;
}

Json backend_of(const Settings& where) { return where.at("backend").value; }

TEST_CASE("a config as written has its matrices and backends, whatever the machine lacks") {
  const Config config = TwoFolders().load({});

  CHECK(matrices_of(config) ==
        std::vector<std::string>{"absent_a", "shuffle(of=absent_b)", "poisson2d(nx=8)"});
  CHECK(widths(config) == Json{32, 128});
  CHECK(config.backends == std::vector<std::string>{"simulate", "gpu"});
  CHECK(backend_of(config.table[0].where) == "gpu");
  CHECK(config.cases.empty());
}

TEST_CASE("without its files, stand-ins of the sets run, and the changes of [without.data]") {
  const Config config = TwoFolders().load({.data = true});

  CHECK(matrices_of(config) == std::vector<std::string>{"rmat(scale=4)", "poisson2d(nx=8)"});
  CHECK(widths(config) == Json{16});
  CHECK(config.backends.size() == 2);
}

TEST_CASE("without a GPU its backends are left out, and tables and figures show simulated rows") {
  const Config config = TwoFolders().load({.gpu = true});

  CHECK(config.backends == std::vector<std::string>{"simulate"});
  CHECK(backend_of(config.table[0].where) == "simulate");
  CHECK(backend_of(config.figures[0].where) == Json{"simulate"});
  CHECK(backend_of(config.figures[1].where) == "simulate");
  CHECK(backend_of(config.expects[0].where) == "gpu");  // a claim on measured rows stays one
  CHECK(config.figures[0].normalise.empty());
  CHECK(config.figures[1].normalise == "csr_spmm");
  CHECK(config.cases.at(0).name == "more");
  CHECK(widths(config) == Json{32, 128});
}

TEST_CASE("--set wins over what a machine lacks") {
  const TwoFolders folders;

  CHECK(widths(folders.load({.gpu = true, .data = true}, {"grid.n=64"})) == Json{64});
  CHECK(backend_of(folders.load({.gpu = true}, {"table.where.backend=gpu"}).table[0].where) ==
        "gpu");
  CHECK(folders.load({.gpu = true}, {"figure.measured.normalise=gpu"}).figures[1].normalise ==
        "gpu");
}

TEST_CASE("where every backend needs a GPU, products are simulated and packings packed") {
  const TwoFolders folders;
  const std::string text =
      "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"gpu\"]\n[table]\ncolumns = [\"n\"]\n"
      "where = { backend = \"gpu\" }\n";
  const Config simulated = folders.load({.gpu = true}, {}, text);

  CHECK(simulated.backends == std::vector<std::string>{"simulate"});
  CHECK(backend_of(simulated.table[0].where) == "simulate");
  CHECK(folders.load({.gpu = true}, {"experiment.backends=[\"pack_gpu\"]"}, text).backends ==
        std::vector<std::string>{"pack"});
  const Config alone = folders.load({.gpu = true}, {"experiment.gpu_only=it is closed"}, text);
  CHECK(alone.backends == std::vector<std::string>{"gpu"});
  CHECK(backend_of(alone.table[0].where) == "gpu");
}

TEST_CASE("what a config needs is found from its backends and matrices") {
  const TwoFolders folders;
  const Needs whole = needs_of(folders.load({}));
  const Needs without = needs_of(folders.load({.gpu = true, .data = true}));

  CHECK(whole.gpu);
  CHECK(whole.files == 2);
  CHECK(whole.absent == 2);
  CHECK(to_text(whole, folders.load({})) == "GPU to measure, 2 files");
  CHECK_FALSE(without.gpu);
  CHECK(without.files == 0);
  CHECK(to_text(without, folders.load({.gpu = true, .data = true})) == "nothing");
}

TEST_CASE("a mistake in [without] has its place") {
  const TwoFolders folders;
  const auto error = [&](const std::string& rest, const Without& without) {
    return error_of([&] { folders.load(without, {}, kText + rest); });
  };

  CHECK(error("[without.cpu]\n", {}).starts_with("c.toml:39:10: unknown key in [without] 'cpu'"));
  CHECK(error("[without.data.measure]\nnois = 1\n", {}) == "no error");
  CHECK(error("[without.data.measure]\nnois = 1\n", {.data = true})
            .starts_with("c.toml:40:1: unknown key in [measure] 'nois', did you mean 'noise'"));
  CHECK(error("[without.gpu.figure.other]\nx = \"n\"\n", {.gpu = true}) ==
        "c.toml:39:21: 'other' is neither the number nor the name of one of the 2 elements of "
        "'figure'");
}

}  // namespace
}  // namespace tessera
