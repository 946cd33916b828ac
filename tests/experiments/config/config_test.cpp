// Reading configs: keys, types, includes, sets of matrices and overrides, and what each error says.
#include "experiments/config/config.hpp"
#include "experiments/tables/rows.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

const char* const kWhole = R"(schema = 1
[experiment]
id = "whole"
title = "A whole config"
paper = "Acc-SpMM, Fig. 15"
seed = 7
timeout_s = 30
backends = ["emulate", "gpu"]
[grid]
n = [32, 128]
matrix = ["absent_b", "absent_a"]
kernel = ["csr_spmm", { name = "acc_spmm", precision = "tf32_raw" }]
[[zip]]
reorder = ["none", "degree"]
values = ["random", "stored"]
[ablation]
mode = "leave_one_out"
base = { name = "Base" }
step = [{ name = "+RO", reorder = "rcm" }]
[check]
enabled = false
[measure]
l2 = "flush"
launch = "graph"
noise = 0.05
[[derive]]
name = "class"
of = "mean_nnz_per_tile"
bins = [4, 12.5]
labels = ["low", "middle", "high"]
[[reduce]]
name = "Best-SC"
keep = ["matrix"]
best = "max"
by = "gflops"
where = { kernel = "csr_spmm" }
[table]
columns = ["matrix", "gflops"]
[[figure]]
id = "f"
kind = "bars"
x = "matrix"
y = "gflops"
series = "kernel"
y_scale = "log"
[[expect]]
name = "speedup"
source = "Table 3"
column = "gflops"
where = { kernel = "acc_spmm" }
relative_to = { kernel = "csr_spmm" }
value = 1.5
tolerance = 0.2
)";

/// Loads a config made of these lines, written as <folder>/c.toml.
Config load(const TemporaryFolder& folder, const std::string& text,
            const std::vector<std::string>& sets = {}) {
  write_text(folder / "c.toml", text);
  return load_config(folder / "c.toml", sets);
}

/// The message of the Error that `body` throws, the folder's name taken out.
template <class Body>
std::string message(const TemporaryFolder& folder, Body body) {
  try {
    body();
  } catch (const Error& error) {
    std::string text = error.what();
    const std::string prefix = folder.path() + "/";
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
  }
  return "no error";
}

std::string error_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  const TemporaryFolder folder;
  return message(folder, [&] { load(folder, text, sets); });
}

const std::string kHead = "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\"]\n";

/// The same for a config that opens with kHead: four lines, the last of them in [experiment].
std::string error_after_head(const std::string& rest) { return error_of(kHead + rest); }

std::vector<std::string> matrices(const Config& config) {
  std::vector<std::string> names;
  for (const Axis& axis : config.grid)
    if (axis.name == "matrix")
      for (const Settings& choice : axis.choices)
        names.push_back(choice.at("matrix").value.get<std::string>());
  return names;
}

TEST_CASE("a config is read with every section, and axes keep the order they were written in") {
  const TemporaryFolder folder;

  const Config config = load(folder, kWhole);

  CHECK(config.id == "whole");
  CHECK(config.seed == 7);
  CHECK(config.backends == std::vector<std::string>{"emulate", "gpu"});
  REQUIRE(config.grid.size() == 3);
  CHECK(config.grid[0].name == "n");
  CHECK(config.grid[1].name == "matrix");
  CHECK(matrices(config) == std::vector<std::string>{"absent_b", "absent_a"});
  const Settings& acc = config.grid[2].choices[1];
  CHECK(acc.at("kernel").value == "acc_spmm");
  CHECK(acc.at("kernel.precision").value == "tf32_raw");
  CHECK(acc.at("kernel.precision").place == (folder / "c.toml:12:56"));
  REQUIRE(config.zips.size() == 1);
  CHECK(config.zips[0].choices[1].at("values").value == "stored");
  CHECK(config.ablation.at(0).mode == Ablation::Mode::kLeaveOneOut);
  CHECK_FALSE(config.check);
  CHECK(config.measure.l2 == "flush");
  CHECK(config.measure.launch == "graph");
  CHECK(config.measure.noise == 0.05);
  CHECK(config.timeout_s == 30);
  CHECK(config.derives.at(0).labels.size() == 3);
  CHECK(config.reduces.at(0).largest);
  CHECK(config.reduces.at(0).where.at("kernel").value == "csr_spmm");
  CHECK(config.table.size() == 1);
  CHECK(config.figures.at(0).id == "f");
  CHECK(config.figures.at(0).y_scale == "log");
  CHECK(config.expects.at(0).relative_to.at("kernel").value == "csr_spmm");
  CHECK(config.expects.at(0).statistic == "geomean");
}

TEST_CASE("an unknown key is named with its place and the nearest known one, at every level") {
  CHECK(error_after_head("[gird]\nn = [1]\n")
            .starts_with("c.toml:5:2: unknown key in the config 'gird', did you mean 'grid'"));
  CHECK(error_after_head("sede = 1\n")
            .starts_with("c.toml:5:1: unknown key in [experiment] 'sede', did you mean 'seed'"));
  CHECK(error_after_head("[measure]\n  nois = 1\n")
            .starts_with("c.toml:6:3: unknown key in [measure] 'nois', did you mean 'noise'"));
  CHECK(
      error_after_head("[[figure]]\nkind=\"bars\"\nx=\"a\"\ny=\"b\"\nseries=\"c\"\npannel=\"n\"\n")
          .starts_with("c.toml:10:1: unknown key in [[figure]] 'pannel', did you mean 'panel'"));
  CHECK(error_after_head("[ablation]\nbase = {name=\"b\"}\nstep = [{name=\"a\"}]\nmod = 1\n")
            .starts_with("c.toml:8:1: unknown key in [ablation] 'mod', did you mean 'mode'"));
  CHECK(error_after_head("[check]\nenable = true\n").find("'enabled'") != std::string::npos);
}

TEST_CASE("an ill-typed or impossible value is an error that says what was expected") {
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(error_after_head("seed = \"x\"\n") == "c.toml:5:8: seed takes an integer, not 'x'");
  CHECK(error_after_head("seed = -1\n") == "c.toml:2:1: seed takes 0 or more, not -1");
  CHECK(error_after_head("title = 3\n") == "c.toml:5:9: title takes text, not 3");
  CHECK(error_after_head("[check]\nenabled = 1\n") ==
        "c.toml:6:11: enabled takes true or false, not 1");
  CHECK(error_after_head("[figure]\nkind = \"bars\"\n") ==
        "c.toml:5:1: write [[figure]], a list of tables");
  CHECK(error_after_head("[grid]\nn = []\n") ==
        "c.toml:6:5: n is an empty list: nothing would run");
  CHECK(has(error_after_head("[grid]\nn = [1979-05-27]\n"), "c.toml:6:6: a date"));
  CHECK(has(error_after_head("[grid]\nn = [nan]\n"), "c.toml:6:6: a date, a time, inf or nan"));
  CHECK(error_after_head("[grid]\nn = [{ name = 1 }]\n") ==
        "c.toml:6:6: n takes a plain value, not a table");
  CHECK(error_after_head("[[case]]\nname = \"a\"\nn = [1, 2]\n") ==
        "c.toml:7:5: n takes a single value here, not a list: lists go into [grid] or [[zip]]");
  CHECK(error_after_head("[[zip]]\nn = [1, 2]\nseed = [1, 2, 3]\n") ==
        "c.toml:7:1: the lists of a [[zip]] are of one length, but seed has 3 values and n has 2");
  CHECK(error_after_head("[measure]\nl2 = \"cold\"\n") ==
        "c.toml:6:6: unknown value for l2 'cold'; known: warm, flush");
  CHECK(error_after_head("[measure]\nlaunch = \"host\"\n") ==
        "c.toml:6:10: unknown value for launch 'host'; known: stream, graph");
  CHECK(has(error_after_head("[measure]\nmin_samples = 2000\n"), "max_samples = 1000 is below"));
  CHECK(has(error_after_head("[measure]\nmax_samples = 9000000000000000000\n"), "takes at most"));
  CHECK(
      has(error_after_head("[measure]\nwarmup = 9000000000000000000\n"), "it takes 0 to 10000000"));
  CHECK(has(error_after_head("minutes = -5\n"), "minutes takes 0 or more, not -5"));
  CHECK(error_after_head("[[derive]]\nname = \"d\"\nof = \"n\"\nbins = [1]\nlabels = [\"a\"]\n") ==
        "c.toml:5:1: 1 bins have 2 labels, one more than limits; there are 1");
  CHECK(has(error_after_head("[[derive]]\nname = \"d\"\n"), "either 'expr' or"));
  CHECK(
      error_after_head("[ablation]\nbase = {name=\"b\"}\nstep = [{name=\"+a\"}, {name=\"a\"}]\n") ==
      "c.toml:7:22: the name 'a' is taken by an earlier step");
  CHECK(has(error_after_head("[ablation]\nbase = {name=\"b\"}\nstep = [{name=\"a\"}]\n"
                             "[[case]]\nname = \"c\"\nn = 1\n"),
            "not both"));
  CHECK(error_of("schema = 1\ngrid = 3\n[experiment]\nid = \"c\"\nbackends = [\"gpu\"]\n") ==
        "c.toml:2:8: [grid] takes a table, not 3");
  CHECK(error_of("schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulat\"]\n") ==
        "c.toml:4:13: unknown backend 'emulat', did you mean 'emulate'; known: emulate, gpu, "
        "model, pack, pack_gpu, prepare_gpu, reorder, reorder_gpu, simulate");
  CHECK(has(error_of("schema = 1\n[experiment]\nid = \"a/b\"\n"), "the id 'a/b'"));
  CHECK(error_of("schema = 1\nn = = 2\n").starts_with("c.toml:2:5: "));
}

TEST_CASE("a where selects the rows that have its value, or one of a list") {
  const TemporaryFolder folder;
  const std::vector<Row> rows{{{"status", "ok"}, {"n", 64}, {"case", "plain"}},
                              {{"status", "ok"}, {"n", 128}, {"case", "tiled"}},
                              {{"status", "ok"}, {"n", 256}, {"case", "tiled"}},
                              {{"status", "failed"}, {"n", 64}, {"case", "tiled"}}};
  const auto widths = [&](const std::string& where) {
    const Config config = load(folder, kHead + "[table]\ncolumns = [\"n\"]\nwhere = " + where);
    std::vector<int> found;
    for (const Row& row : select(rows, config.table.at(0).where)) found.push_back(row.at("n"));
    return found;
  };

  CHECK(widths("{ case = \"tiled\" }") == std::vector{128, 256});
  CHECK(widths("{ n = [256, 64] }") == std::vector{64, 256});
  CHECK(widths("{ n = [64, 128], case = [\"plain\", \"other\"] }") == std::vector{64});
  CHECK(widths("{ status = [\"failed\", \"oom\"] }") == std::vector{64});
  CHECK(widths("{ case = [\"other\"] }").empty());
  CHECK(widths("{ kernel = [\"csr_spmm\"] }").empty());
  CHECK(error_after_head("[table]\ncolumns = [\"n\"]\nwhere = { n = [] }\n") ==
        "c.toml:7:15: n takes a value or a list of values");
  CHECK(error_after_head("[table]\ncolumns = [\"n\"]\nwhere = { n = [[64]] }\n") ==
        "c.toml:7:15: n takes a value or a list of values");
}

TEST_CASE("a config has to say schema = 1 and what experiment it is") {
  CHECK(error_of("[grid]\nn = [1]\n") == "c.toml:1:1: 'schema = 1' is missing");
  CHECK(error_of("schema = 2\n") == "c.toml:1:10: schema has to be 1, not 2");
  CHECK(error_of("schema = \"1\"\n") == "c.toml:1:10: schema has to be 1, not '1'");
  CHECK(error_of("schema = 1\n") == "c.toml:1:1: the config needs an [experiment]");
  CHECK(error_of("schema = 1\n[experiment]\n") == "c.toml:2:1: [experiment] needs 'id'");
  CHECK(error_after_head("") == "no error");
}

TEST_CASE("included files come first: tables merge, values are replaced, lists of tables append") {
  const TemporaryFolder folder;
  write_text(folder / "base.toml",
             "schema = 1\n[grid]\nkernel = [\"csr_spmm\"]\nn = [1, 2]\n[experiment]\nseed = 1\n"
             "[[case]]\nname = \"one\"\nn = 5\n");
  write_text(folder / "middle.toml",
             "schema = 1\ninclude = [\"base.toml\"]\n[experiment]\nseed = 2\n");

  const Config config =
      load(folder,
           "schema = 1\ninclude = [\"middle.toml\", \"base.toml\"]\n[experiment]\nid = \"c\"\n"
           "backends = [\"gpu\"]\n[grid]\nn = [3]\nseed = [9]\n[[case]]\nname = \"two\"\n");

  CHECK(config.seed == 2);
  REQUIRE(config.grid.size() == 3);
  CHECK(config.grid[0].name == "kernel");
  REQUIRE(config.grid[1].choices.size() == 1);
  CHECK(config.grid[1].choices[0].at("n").value == 3);
  CHECK(config.grid[2].name == "seed");
  REQUIRE(config.cases.size() == 2);
  CHECK(config.cases[0].settings.at("n").place == (folder / "base.toml:9:5"));
  CHECK(config.cases[1].name == "two");
}

TEST_CASE("a circular or missing include names the chain or the place") {
  const TemporaryFolder folder;
  write_text(folder / "a.toml", "schema = 1\ninclude = [\"b.toml\"]\n");
  write_text(folder / "b.toml", "schema = 1\ninclude = [\"a.toml\"]\n");

  CHECK(message(folder, [&] { load_config(folder / "a.toml"); }) ==
        "b.toml:2:12: include: circular include: a.toml -> b.toml -> a.toml");
  CHECK(message(folder, [&] { load(folder, "schema = 1\ninclude = [\"z.toml\"]\n"); }) ==
        "c.toml:2:12: include: z.toml: there is no such file");
  CHECK(message(folder, [&] { load(folder, "schema = 1\ninclude = \"a.toml\"\n"); }) ==
        "c.toml:2:11: include takes a list of files, not 'a.toml'");
}

TEST_CASE("--set replaces and adds single keys, and its errors name it") {
  const TemporaryFolder folder;
  const Config config =
      load(folder, kWhole,
           {"experiment.seed=11", "grid.n=[64]", "grid.matrix=2cubes_sphere", "figure.0.x=kernel",
            "grid.\"kernel.precision\"=tf32", "grid.reorder={name=\"degree\", sort=\"ascending\"}",
            "grid.values=lognormal(sigma=2)"});

  CHECK(config.seed == 11);
  CHECK(config.grid[0].choices.size() == 1);
  CHECK(config.grid[0].choices[0].at("n").value == 64);
  CHECK(matrices(config) == std::vector<std::string>{"2cubes_sphere"});
  CHECK(config.figures[0].x == "kernel");
  CHECK(config.grid[3].name == "kernel.precision");
  CHECK(config.grid[4].choices[0].at("reorder.sort").value == "ascending");
  CHECK(config.grid[5].choices[0].at("values").value == "lognormal");
  CHECK(config.grid[5].choices[0].at("values.sigma").value == 2.0);

  CHECK(error_of(kWhole, {"measure.nois=1"})
            .starts_with("--set measure.nois: unknown key in [measure] 'nois', did you mean "
                         "'noise'"));
  CHECK(error_of(kWhole, {"tabel.sort=1"}).starts_with("--set tabel.sort: unknown key"));
  CHECK(error_of(kWhole, {"experiment.seed=many"}) ==
        "--set experiment.seed: seed takes an integer, not 'many'");
  CHECK(error_of(kWhole, {"figure.1.x=n"}) ==
        "--set figure.1.x: '1' is neither the number nor the name of one of the 1 elements of "
        "'figure'");
  CHECK(load(folder, kWhole, {"figure.f.x=kernel", "expect.speedup.value=2"}).expects[0].value ==
        2);
  CHECK(error_of(kWhole, {"grid.kernel.precision=tf32_raw"})
            .starts_with("--set grid.kernel.precision: 'precision' is neither the number"));
  CHECK(error_of(kWhole, {"experiment.seed.x=1"})
            .starts_with("--set experiment.seed.x: 'seed' holds 7"));
  CHECK(error_of(kWhole, {"noise"}) == "--set noise: 'key=value' was expected");
  CHECK(error_of(kWhole, {"grid.n=[1,"}).starts_with("--set grid.n:1:"));
}

TEST_CASE("a set stands for its matrices, sets of sets included, wherever it is found") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "sets");
  std::filesystem::create_directories(folder / "home/experiments/configs/sets");
  write_text(folder / "sets/pair.toml",
             "schema = 1\n[set]\nname = \"pair\"\ntitle = \"A pair\"\nmatrix = [\"p\", \"q\"]\n");
  write_text(folder / "home/experiments/configs/sets/shipped.toml",
             "schema = 1\n[set]\nname = \"shipped\"\nmatrix = [\"@pair\", \"s\"]\n");
  write_text(folder / "elsewhere.toml", "schema = 1\n[set]\nname = \"own\"\nmatrix = [\"o\"]\n");
  const auto with = [&](const std::string& list) {
    return load(folder, "include = [\"elsewhere.toml\"]\n" + kHead + "[grid]\nmatrix = " + list);
  };

  setenv("TESSERA_HOME", (folder / "home").c_str(), 1);
  const Config config = with("[\"a\", \"@shipped\", \"@own\"]");
  const std::string unknown = message(folder, [&] { with("[\"@piar\"]"); });
  unsetenv("TESSERA_HOME");

  CHECK(matrices(config) == std::vector<std::string>{"a", "p", "q", "s", "o"});
  CHECK(unknown ==
        "c.toml:7:11: unknown set of matrices 'piar', did you mean 'pair'; known: own, pair, "
        "shipped");
}

TEST_CASE("a set that contains itself, is misnamed or stands in a case is refused") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "sets");
  write_text(folder / "sets/x.toml", "schema = 1\n[set]\nname = \"x\"\nmatrix = [\"@y\"]\n");
  write_text(folder / "sets/y.toml", "schema = 1\n[set]\nname = \"y\"\nmatrix = [\"@x\"]\n");
  write_text(folder / "sets/z.toml", "schema = 1\n[set]\nname = \"zz\"\nmatrix = [\"a\"]\n");
  write_text(folder / "sets/w.toml", "schema = 1\n[set]\nname = \"w\"\nmatrx = [\"a\"]\n");
  const auto error = [&](const std::string& rest) {
    return message(folder, [&] { load(folder, kHead + rest); });
  };

  CHECK(error("[grid]\nmatrix = \"@x\"\n") ==
        "sets/y.toml:4:11: a set of matrices contains itself: @x -> @y -> @x");
  CHECK(error("[grid]\nmatrix = \"@z\"\n") == "sets/z.toml: it holds no [set] with name = \"z\"");
  CHECK(error("[grid]\nmatrix = \"@w\"\n") ==
        "sets/w.toml:2:1: [set] needs 'matrix' or 'query', and not both");
  CHECK(error("[[case]]\nname = \"a\"\nmatrix = \"@x\"\n") ==
        "c.toml:7:10: a set of matrices goes into [grid] or [[zip]], [[case]] takes one matrix");
}

TEST_CASE("a shipped config is found by its name, an unknown one gets the nearest") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "experiments/configs");
  write_text(folder / "experiments/configs/quick.toml", kHead + "title = \"Quick\"\n");

  setenv("TESSERA_HOME", folder.path().c_str(), 1);
  const auto shipped = shipped_configs();
  const std::string id = load_config("quick").id;
  const std::string misspelt = message(folder, [] { load_config("quik"); });
  unsetenv("TESSERA_HOME");

  CHECK(shipped == std::vector<std::string>{"quick"});
  CHECK(id == "c");
  CHECK(misspelt == "unknown experiment 'quik', did you mean 'quick'; known: quick");
  CHECK(message(folder, [] { load_config("absent.toml"); }) ==
        "absent.toml: there is no such config file");
}

TEST_CASE("the hash of a config covers its includes, its sets and --set") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "sets");
  const auto set = [&](const std::string& list) {
    write_text(folder / "sets/x.toml", "schema = 1\n[set]\nname = \"x\"\nmatrix = " + list);
  };
  const std::string text = kHead + "[grid]\nmatrix = \"@x\"\n";

  set("[\"a\"]");
  const std::string hash = load(folder, text).hash;

  CHECK(load(folder, "# a comment\n" + text).hash == hash);
  CHECK(load(folder, text, {"grid.n=5"}).hash != hash);
  set("[\"a\", \"b\"]");
  CHECK(load(folder, text).hash != hash);
}

TEST_CASE("a config with random bytes changed is read or refused, never anything else") {
  const TemporaryFolder folder;
  const std::string whole = kWhole;
  RandomSequence random(17);
  int refused = 0, read = 0;

  for (int round = 0; round < 1500; ++round) {
    std::string text = whole;
    for (std::uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
      const auto at = static_cast<std::ptrdiff_t>(random.below(text.size()));
      const char byte = random.below(4) == 0 ? static_cast<char>(random.below(256))
                                             : whole[random.below(whole.size())];
      switch (random.below(3)) {
        case 0:
          text[static_cast<std::size_t>(at)] = byte;
          break;
        case 1:
          text.insert(text.begin() + at, byte);
          break;
        default:
          text.erase(text.begin() + at);
      }
    }
    try {
      const Config config = load(folder, text);
      REQUIRE(config.hash.size() == 16);
      ++read;
    } catch (const Error& error) {
      REQUIRE(std::string(error.what()).size() > 10);
      ++refused;
    }
  }

  CHECK(refused > 300);
  CHECK(read > 50);
}

}  // namespace
}  // namespace tessera
