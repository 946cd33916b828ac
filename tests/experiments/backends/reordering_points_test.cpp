// Points that only find an order, and orders that are kept: what a config may ask, what is
// measured, and when the cache is used.
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <regex>
#include <thread>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/find_order.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/machine/peak_memory.hpp"
#include "experiments/run/run_point.hpp"
#include "experiments/tables/rows.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kBytes = 32 << 20;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::int64_t kUnsure = 16 << 20;  // of a measurement of memory: they have their own
#else
constexpr std::int64_t kUnsure = 1 << 20;  // of a measurement of memory
#endif

std::atomic<int> calls = 0;

/// Rotates the rows by one, takes 10 ms and some memory, and counts its calls. With fickle = true
/// it rotates by the number of the call. Ends at once, with the identity, when told to.
class ToyRotation final : public Reordering {
 public:
  ToyRotation(bool fickle, bool hungry, double limit_s)
      : fickle_(fickle), hungry_(hungry), limit_s_(limit_s) {}

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(limit_s_);
    const int shift = fickle_ ? ++calls : (++calls, 1);
    std::vector<char> memory(hungry_ ? std::size_t{1} << 62 : kBytes, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    watch.report(std::accumulate(memory.begin(), memory.end(), 0) > 0 ? 0.5 : 1);
    if (watch.stop()) return {Permutation::identity(matrix.rows), std::nullopt};
    std::vector<std::int32_t> rows(matrix.rows);
    for (std::int32_t i = 0; i < matrix.rows; ++i) rows[i] = (i + shift) % matrix.rows;
    return {Permutation(std::move(rows)), std::nullopt, fmt::format("by {}", shift)};
  }

 private:
  bool fickle_, hungry_;
  double limit_s_;
};

const Register<Reordering> toy_rotation{{
    .name = "toy_rotation",
    .summary = "rotates the rows, for the test of orders that are kept",
    .params = {{"fickle", false, ""}, {"hungry", false, ""}, time_limit_param()},
    .make =
        [](const Params& params) {
          return std::make_unique<ToyRotation>(params.flag("fickle"), params.flag("hungry"),
                                               params.real("time_limit_s"));
        },
}};

Variant rotation(const Params::Given& given = {}) {
  return {"toy_rotation", Registry<Reordering>::instance().resolve("toy_rotation", given)};
}

/// A cache of its own, and a matrix with the hash of its content.
struct Fixture {
  FoundOrder find(const Variant& variant, bool afresh = false) const {
    Watch watch;
    return find_order(matrix, "content", variant, watch, afresh);
  }

  TemporaryFolder folder;
  EnvironmentVariable cache{"TESSERA_CACHE", folder.path()};
  CsrMatrix matrix = random_sparse(40, 30, 0.2, 1);
};

TEST_CASE("an order is computed once and then kept, with what it took") {
  const Fixture fixture;
  calls = 0;

  const FoundOrder first = fixture.find(rotation()), second = fixture.find(rotation());

  CHECK(calls == 1);
  CHECK_FALSE(first.from_cache);
  CHECK(second.from_cache);
  CHECK(second.order.rows == first.order.rows);
  CHECK(second.order.rows.old_of_new()[0] == 1);
  CHECK(second.order.chosen == "by 1");
  CHECK(second.seconds == first.seconds);
  CHECK(second.seconds >= 0.01);
  CHECK(second.threads == first.threads);
  CHECK(second.peak_bytes == first.peak_bytes);
  PreparationPart prep;
  add_order(second, prep);
  CHECK(prep.reorder_from_cache == true);
  CHECK(prep.reorder_chosen == "by 1");
}

TEST_CASE("another matrix, other parameters, or asking for it make an order anew") {
  const Fixture fixture;
  fixture.find(rotation());
  calls = 0;

  fixture.find(rotation({{"time_limit_s", 100.0}}));
  CHECK(calls == 1);
  Watch watch;
  find_order(fixture.matrix, "other content", rotation(), watch);
  CHECK(calls == 2);
  CHECK_FALSE(fixture.find(rotation(), true).from_cache);
  CHECK(calls == 3);
  CHECK(fixture.find(rotation()).from_cache);
  CHECK(calls == 3);
}

TEST_CASE("a kept order of another size than the matrix is told and made anew") {
  const Fixture fixture;
  fixture.find(rotation());
  const CsrMatrix taller = random_sparse(41, 30, 0.2, 1);
  const Outcome outcome = in_child([&] {
    Watch watch;
    const FoundOrder found = find_order(taller, "content", rotation(), watch);
    _exit(!found.from_cache && found.order.rows.size() == 41 ? 0 : 1);
  });

  CHECK(outcome.exit_code == 0);
  CHECK(outcome.output.find("is not used: it is no order of a matrix of 41 x 30") !=
        std::string::npos);
}

TEST_CASE("a reordering beyond the memory is told with the size of the matrix") {
  const Fixture fixture;
  const std::string said = fmt::format(
      "this machine has too little memory to reorder a matrix of 40 x 30 with {} nonzeros",
      fixture.matrix.nnz());
  CHECK_THROWS_WITH_AS(fixture.find(rotation({{"hungry", true}})), said.c_str(), OutOfMemory);
}

TEST_CASE("an order that was cut short, or quick to find, is not kept") {
  const Fixture fixture;
  const Variant limited = rotation({{"time_limit_s", 1e-3}});
  const Variant none{"none", Registry<Reordering>::instance().resolve("none", {})};

  CHECK(fixture.find(limited).cut_short);
  PreparationPart prep;
  add_order(fixture.find(limited), prep);
  CHECK(prep.reorder_cut_short == true);
  CHECK_FALSE(fixture.find(limited).from_cache);
  fixture.find(none);
  CHECK_FALSE(std::filesystem::exists(fixture.folder / "orders"));
  CHECK_FALSE(fixture.find(rotation()).cut_short);
  CHECK(std::filesystem::exists(fixture.folder / "orders"));
}

TEST_CASE("the memory of a piece of work is that at its most, not what it leaves behind") {
  const PeakMemory quiet;
  if (!quiet.problem().empty()) {
    MESSAGE("skipped: ", quiet.problem());
    return;
  }
  CHECK(quiet.bytes() < kUnsure);

  const PeakMemory busy;
  { const std::vector<char> memory(kBytes, 1); }

  CHECK(busy.bytes() > kBytes - kUnsure);
  CHECK(busy.bytes() < kBytes + kUnsure);
}

TEST_CASE("work beside that of other threads has no peak of its own") {
  const Outcome outcome = in_child([] {
    share_process_memory();
    const PeakMemory memory;
    _exit(!memory.bytes() &&
                  memory.problem() == "other points use the memory of this process at the same time"
              ? 0
              : 1);
  });

  CHECK(outcome.exit_code == 0);
}

/// The record of a point that finds an order.
Json found(const Variant& reorder, std::int64_t threads = 0,
           PointRunnerOptions options = PointRunnerOptions()) {
  Point point;
  point.backend = "reorder";
  point.matrix = "poisson2d(nx=40, ny=30)";
  point.reorder = reorder;
  point.task = Ordering{threads};
  return PointRunner(std::move(options)).run(point).record;
}

TEST_CASE("a point that reorders is timed and weighed, and describes the matrix in its order") {
  const Fixture fixture;
  calls = 0;

  const Json record = found(rotation());

  INFO(record.dump(1));
  REQUIRE(record["status"] == "ok");
  CHECK(record["origin"] == "measured");
  CHECK(record["reorder_version"] == 1);
  CHECK_FALSE(record.contains("kernel_version"));
  CHECK_FALSE(record.contains("format_version"));
  CHECK(record["time"]["n"] == 5);
  CHECK(calls == 5);
  CHECK(record["time"]["median_us"] >= 1e4);
  CHECK(record["time"]["threads"] == num_threads());
  CHECK(record["prep"]["reorder_s"].get<double>() ==
        doctest::Approx(1e-6 * record["time"]["median_us"].get<double>()));
  CHECK(record["prep"]["reorder_chosen"] == "by 1");
  CHECK(record["prep"]["reorder_from_cache"] == false);
  CHECK(record["prep"]["reorder_cut_short"] == false);
  if (record["prep"].contains("reorder_peak_bytes"))
    CHECK(record["prep"]["reorder_peak_bytes"] > kBytes - kUnsure);
  CHECK(record["nnz_per_s"].get<double>() ==
        doctest::Approx(5860 / record["prep"]["reorder_s"].get<double>()));
  CHECK(record["statistics"]["nnz"] == 5860);
  CHECK(record["statistics"]["bandwidth"] == 1199);
  CHECK(record["statistics"].contains("mean_nnz_tc_8x8"));
  CHECK(record["statistics"].contains("bricks"));

  CHECK(found(rotation())["prep"]["reorder_from_cache"] == false);
  CHECK(calls == 10);
  CHECK_FALSE(std::filesystem::exists(fixture.folder / "orders"));
}

TEST_CASE("an order that changes from run to run is wrong, and an order cut short is marked") {
  const Json fickle = found(rotation({{"fickle", true}}));
  const Json limited = found(rotation({{"time_limit_s", 1e-3}}));

  CHECK(fickle["status"] == "wrong");
  CHECK(fickle["reason"].get<std::string>().ends_with("gave another order"));
  CHECK(limited["status"] == "ok");
  CHECK(limited["prep"]["reorder_cut_short"] == true);
  CHECK(limited["time"]["n"] == 1);
}

TEST_CASE("an order is found with the requested threads, and a point with too many is skipped") {
  const ThreadCount threads(3);

  CHECK(found(rotation(), 2)["prep"]["reorder_threads"] == 2);
  CHECK(found(rotation(), 0)["prep"]["reorder_threads"] == 3);
  CHECK(num_threads() == 3);
  const Json record = found(rotation(), 4);
  CHECK(record["status"] == "skipped");
  CHECK(record["reason"] == "4 threads are requested, this process has 3");
}

TEST_CASE("running a point reports the progress of its order") {
  std::vector<double> shares;
  found(rotation({{"time_limit_s", 1e-3}}), 0,
        {.tell_order = [&](const Point& point, double share) {
          CHECK(point.reorder.name == "toy_rotation");
          shares.push_back(share);
        }});

  CHECK(shares == std::vector<double>{0, 0.5});
}

TEST_CASE("a product takes its order from the cache and records the time of its computation") {
  const Fixture fixture;
  Point point;
  point.backend = "pack";
  point.matrix = "poisson2d(nx=9, ny=7)";
  point.reorder = rotation();
  point.task =
      Packing{{parse_values("stored")}, {"csr", Registry<Format>::instance().resolve("csr", {})}};
  calls = 0;

  const Json first = PointRunner().run(point).record, second = PointRunner().run(point).record;
  const Json fresh = PointRunner({.fresh_orders = true}).run(point).record;

  CHECK(calls == 2);
  CHECK(first["prep"]["reorder_from_cache"] == false);
  CHECK(second["prep"]["reorder_from_cache"] == true);
  CHECK(second["prep"]["reorder_s"] == first["prep"]["reorder_s"]);
  CHECK(second["prep"]["apply_s"] >= 0);
  CHECK(second["statistics"] == first["statistics"]);
  CHECK(second["point_id"] == first["point_id"]);
  CHECK(fresh["prep"]["reorder_from_cache"] == false);
}

const std::string kHead = "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"reorder\"]\n";

Config config_of(const std::string& rest) {
  const TemporaryFolder folder;
  write_text(folder / "c.toml", kHead + rest);
  return load_config(folder / "c.toml");
}

std::string error_of(const std::string& rest) {
  try {
    make_plan(config_of(rest));
  } catch (const Error& error) {
    return std::regex_replace(error.what(), std::regex("[^ ]*/c\\.toml"), "c.toml");
  }
  return "no error";
}

TEST_CASE("a point that reorders has a matrix, an order and threads, and nothing else") {
  const Plan plan = make_plan(config_of(
      "[grid]\nmatrix = \"absent_a\"\nreorder = [\"none\", \"rcm\"]\nthreads = [0, 2]\n"));

  REQUIRE(plan.entries.size() == 4);
  CHECK(to_json(plan.entries[1].point).dump() ==
        R"({"backend":"reorder","matrix":"absent_a","reorder":{"name":"none"},"threads":2})");
  CHECK(task_text(plan.entries[1].point) == "none threads=2");
  for (const PlanEntry& entry : plan.entries) {
    const Json json = to_json(entry.point);
    CHECK(to_json(point_from_json(Json::parse(json.dump()))) == json);
  }
  Json negative = to_json(plan.entries[0].point);
  negative["threads"] = -1;
  CHECK_THROWS_WITH_AS(point_from_json(negative),
                       "threads: at least 0, for all, was expected, not -1", Error);
}

TEST_CASE("a config that asks a reordering for a product or a packing is refused") {
  const std::string grid = "[grid]\nmatrix = \"absent_a\"\nreorder = \"rcm\"\n";

  CHECK(error_of(grid) == "no error");
  CHECK(error_of(grid + "values = \"uniform01\"\nseed = 3\n") == "no error");
  CHECK(error_of(grid + "format = \"csr\"\n") ==
        "c.toml:8:10: format is of a packing, and backend reorder only finds an order of A");
  CHECK(error_of(grid + "kernel = \"csr_spmm\"\n") ==
        "c.toml:8:10: kernel is of a product, and backend reorder only finds an order of A");
  CHECK(error_of("[grid]\nmatrix = \"absent_a\"\n").starts_with("c.toml: no reorder is given"));
  CHECK(error_of(grid + "threads = -1\n") ==
        "c.toml:8:11: threads takes an integer of at least 0, not -1");
}

TEST_CASE("what a reordering took is a column, measured, and the tiles it gives are counted") {
  const Config config = config_of(
      "[grid]\nmatrix = \"absent_a\"\nreorder = \"rcm\"\n"
      "[[derive]]\nname = \"ns_per_nnz\"\nexpr = \"1e9 / nnz_per_s\"\n");
  const Plan plan = make_plan(config);
  RecordSet records;
  records.points.push_back({{"params_hash", plan.entries.at(0).hash},
                            {"params", to_json(plan.entries.at(0).point)},
                            {"status", "ok"},
                            {"origin", "measured"},
                            {"nnz_per_s", 1e6},
                            {"time", {{"threads", 2}}},
                            {"prep", {{"reorder_s", 0.5}, {"reorder_peak_bytes", 100}}},
                            {"statistics", {{"mean_nnz_tc_8x8", 9.5}}}});

  const Row row = make_rows(plan, records, config).at(0);

  CHECK(row.at("ns_per_nnz") == 1000);
  CHECK(row.at("threads") == 2);
  CHECK_FALSE(row.contains("values"));
  CHECK(value_origin(row, "reorder_peak_bytes", config) == "measured");
  CHECK(value_origin(row, "reorder_s", config) == "measured");
  CHECK(value_origin(row, "ns_per_nnz", config) == "measured");
  CHECK(value_origin(row, "mean_nnz_tc_8x8", config) == "counted");
}

TEST_CASE("a shuffled matrix is known by the name of the one that was shuffled") {
  const std::map<std::string, std::string> base_of{
      {"rmat(scale=6)", "rmat(scale=6)"},
      {"shuffle(of=rmat(scale=6))", "rmat(scale=6)"},
      {"shuffle(of=rmat(scale=6), sides=both, seed=3)", "rmat(scale=6)"},
      {"shuffle(of=mycielskian5, seed=3)", "mycielskian5"}};
  for (const auto& [matrix, base] : base_of) {
    CAPTURE(matrix);
    const Config config = config_of("[grid]\nmatrix = \"" + matrix + "\"\nreorder = \"none\"\n");
    const Plan plan = make_plan(config);
    RecordSet records;
    records.points.push_back({{"params_hash", plan.entries.at(0).hash},
                              {"params", to_json(plan.entries.at(0).point)},
                              {"status", "ok"}});

    const Row row = make_rows(plan, records, config).at(0);

    CHECK(row.at("base") == base);
    CHECK(row.at("shuffled") == (matrix != base));
  }
}

}  // namespace
}  // namespace tessera
