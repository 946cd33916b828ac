// Asking for counters: in a config, in a point, and what becomes of it where there is no GPU.
#include "experiments/counters/counter_source.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "experiments/config/config.hpp"
#include "experiments/config/plan.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "tests/planted_records.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

const std::string kHead =
    "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\", \"gpu\"]\n"
    "[grid]\nmatrix = [\"absent\"]\nkernel = [\"csr_spmm\"]\n";

Config load(const std::string& rest, const std::vector<std::string>& sets = {}) {
  const TemporaryFolder folder;
  write_text(folder / "c.toml", kHead + rest);
  return load_config(folder / "c.toml", sets);
}

TEST_CASE("nothing is counted unless the section is there, and then the usual set") {
  CHECK(load("").counters.source == "");
  CHECK(load("[counters]\nsource = \"none\"\n").counters.source == "");

  const CounterRule rule = load("[counters]\n").counters;

  CHECK(rule.source == "auto");
  CHECK(rule.metrics == default_metrics());
  CHECK(load("", {"counters.source=ncu"}).counters.source == "ncu");
  CHECK(load("[counters]\nmetrics = [\"dram__bytes_read.sum\"]\n").counters.metrics ==
        std::vector<std::string>{"dram__bytes_read.sum"});
}

TEST_CASE("what [counters] cannot be is an error with its place") {
  const auto error = [](const std::string& rest) { return error_of([&] { load(rest); }); };

  CHECK(error("[counters]\nsource = \"cupty\"\n")
            .starts_with("c.toml:9:10: unknown value for source 'cupty', did you mean 'cupti'"));
  CHECK(error("[counters]\nmetric = [\"a\"]\n")
            .starts_with("c.toml:9:1: unknown key in [counters] 'metric', did you mean 'metrics'"));
  CHECK(error("[counters]\nmetrics = []\n").starts_with("c.toml:9:"));
  CHECK(error("[counters]\nmetrics = [\"a.sum\", \"a.sum\"]\n") ==
        "c.toml:8:1: counters.metrics: a.sum is there twice");
}

TEST_CASE("only points of the GPU count, and a point without counters keeps its hash") {
  const Plan without = make_plan(load("")), with = make_plan(load("[counters]\n"));

  REQUIRE(with.entries.size() == 2);
  CHECK(with.entries[0].point.backend == "emulate");
  CHECK(with.entries[0].hash == without.entries[0].hash);
  CHECK(with.entries[1].hash != without.entries[1].hash);
  CHECK_FALSE(to_json(without.entries[1].point).contains("counters"));
  const Json json = to_json(with.entries[1].point);
  CHECK(json["counters"]["source"] == "auto");
  CHECK(to_json(point_from_json(json)) == json);
}

TEST_CASE("the JSON form of counters is refused with the key that is wrong") {
  const Json right = to_json(make_plan(load("[counters]\n")).entries.at(1).point);
  const auto error = [&](const char* key, const Json& value) {
    Json wrong = right;
    wrong["counters"][key] = value;
    return error_of([&] { point_from_json(wrong); });
  };

  CHECK(error("source", "none").starts_with("counters.source: "));
  CHECK(error("source", 3).starts_with("counters.source: text was expected"));
  CHECK(error("metrics", Json::array()) == "counters.metrics: at least one metric was expected");
  CHECK(error("metrics", "gpu__time_duration.sum")
            .starts_with("counters.metrics: a list was expected"));
  CHECK(error("metrics", {1}).starts_with("counters.metrics: a name was expected"));
  CHECK(error("passes", 2).find("counters.passes") != std::string::npos);
}

TEST_CASE("every source is known by name, and one that cannot be used says why") {
  for (const std::string& name : counter_sources()) {
    if (name == "none") continue;
    CAPTURE(name);
    const CounterChoice choice = find_counter_source(name);
    CHECK((choice.source != nullptr) >= choice.missing.empty());
    if (!choice.source) CHECK(choice.missing != "");
  }
  const std::vector<std::string> known = counter_sources();
  for (const char* name : {"none", "auto", "cupti", "ncu", "external"})
    CHECK(std::ranges::find(known, name) != known.end());
  for (const std::string& name : Registry<CounterSource>::instance().names())
    CHECK(std::ranges::find(known, name) != known.end());
  CHECK(auto_counter_sources() == std::vector<std::string>{"cupti", "ncu"});
  CHECK(Registry<CounterSource>::instance().contains("ncu"));
}

/// A folder with an `ncu` that notes its arguments, prints `printed` and reports one launch.
struct StandIn {
  TemporaryFolder folder;
  EnvironmentVariable path{"PATH", folder.path() + ":/usr/bin:/bin"};

  StandIn(const std::string& printed, const std::string& rest, const std::string& report = "") {
    write_text(folder / "report.csv", report.empty() ? "\"ID\",\"dram__bytes_read.sum\"\n"
                                                       "\"\",\"byte\"\n\"0\",\"4,096\"\n"
                                                     : report);
    write_text(folder / "ncu", fmt::format("#!/bin/sh\necho \"$@\" > '{0}/arguments'\n"
                                           "while [ $# -gt 1 ]; do\n"
                                           "  [ $1 = --log-file ] && cp '{0}/report.csv' $2\n"
                                           "  [ $1 = --json ] && cp $2 '{0}/point.json'\n"
                                           "  shift\ndone\necho '{1}'\n{2}\n",
                                           folder.path(), printed, rest));
    std::filesystem::permissions(folder / "ncu", std::filesystem::perms::owner_all);
  }

  CounterValues collect(const std::string& l2, const std::string& algorithm = "") const {
    Point point = make_plan(load("[counters]\n")).entries.at(1).point;
    point.measure.l2 = l2;
    return find_counter_source("ncu").source->collect({"dram__bytes_read.sum"},
                                                      {point, algorithm, 0, {}, [] {}});
  }
};

TEST_CASE("ncu runs the same point once more, marked, and its report is what was counted") {
  const StandIn ncu(R"({"status": "ok", "winner": "alg2"})", "");

  CHECK(ncu.collect("flush", "alg2").at("dram__bytes_read.sum") == 4096);

  const std::string arguments = read_text(ncu.folder / "arguments");
  for (const char* part : {"--cache-control all", "--profile-from-start off", "--print-units base",
                           "--metrics dram__bytes_read.sum ", " point --no-environment --json "})
    CHECK(arguments.find(part) != std::string::npos);
  const Point child = point_from_json(Json::parse(read_text(ncu.folder / "point.json")));
  CHECK(child.counters.source == "external");
  CHECK_FALSE(child.check.enabled);
  CHECK(dense_product(child).kernel.name == "csr_spmm");
  ncu.collect("warm", "alg2");
  CHECK(read_text(ncu.folder / "arguments").find("--cache-control none") != std::string::npos);
}

TEST_CASE("what goes wrong under ncu is said in the words of ncu or of the child") {
  const auto error = [](const std::string& printed, const std::string& rest,
                        const std::string& report = "") {
    const StandIn ncu(printed, rest, report);
    return error_of([&] { ncu.collect("warm"); });
  };

  CHECK(error("", "echo 'error: no such matrix' >&2; exit 2") ==
        "ncu ended with 2: error: no such matrix");
  CHECK(error("", "exit 1", "==ERROR== Failed to find metric x\n") ==
        "ncu ended with 1: ==ERROR== Failed to find metric x");
  CHECK(error("", "exit 1", "==ERROR== ERR_NVGPUCTRPERM\n") ==
        "ncu: this machine's driver lets only root read counters");
  CHECK(error(R"({"status": "skipped", "reason": "no GPU"})", "") ==
        "the child under ncu ended 'skipped': no GPU");
  CHECK(error(R"({"status": "ok", "winner": "alg2"})", "") ==
        "the child under ncu found 'alg2' fastest, and '' was timed");
  CHECK(error("{", "") == "the child under ncu printed no record");
}

TEST_CASE("ncu is looked for in the path") {
  const TemporaryFolder folder;
  const EnvironmentVariable path("PATH", folder.path());
  const bool elsewhere = find_counter_source("ncu").missing.empty();

  write_text(folder / "ncu", "#!/bin/sh\n");
  CHECK(find_counter_source("ncu").missing.empty() == elsewhere);  // not executable
  std::filesystem::permissions(folder / "ncu", std::filesystem::perms::owner_all);

  CHECK(find_counter_source("ncu").missing == "");
}

}  // namespace
}  // namespace tessera
