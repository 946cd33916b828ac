// From configs to points: expansion, defaults, parameters, merging, shards, and a point's JSON
// form.
#include "experiments/config/plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <set>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm_kernel.hpp"
#include "reorder/reordering.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// The file's order under parameters of every type, one of them a name that acc_spmm has as well.
class ToyOrder final : public Reordering {
 public:
  Order order(const CsrMatrix& matrix, Watch&) const override {
    return {Permutation::identity(matrix.rows), std::nullopt};
  }
};

const Register<Reordering> toy_order{{
    .name = "toy_order",
    .summary = "the order of the file, for the tests of parameters",
    .params = {{"precision", std::string("up"), "", {"up", "down"}},
               {"depth", std::int64_t{2}, "", {}, 1, 8},
               {"share", 0.5, ""}},
    .make = [](const Params&) { return std::make_unique<ToyOrder>(); },
}};

const std::string kHead = "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\"]\n";

Plan plan_of(const std::string& rest, const std::vector<std::string>& backends = {}) {
  const TemporaryFolder folder;
  write_text(folder / "c.toml", kHead + rest);
  return make_plan(load_config(folder / "c.toml"), backends);
}

std::string error_of(const std::string& rest, const std::vector<std::string>& backends = {}) {
  try {
    plan_of(rest, backends);
  } catch (const Error& error) {
    return std::regex_replace(error.what(), std::regex("[^ ]*/c\\.toml"), "c.toml");
  }
  return "no error";
}

DenseProduct& dense(Point& point) { return std::get<DenseProduct>(point.task); }
const DenseProduct& dense(const PlanEntry& entry) { return dense_product(entry.point); }

/// One line per entry, of whatever `tell` says about it.
std::string lines(const Plan& plan, const std::function<std::string(const PlanEntry&)>& tell) {
  std::string text;
  for (const PlanEntry& entry : plan.entries) text += tell(entry) + "\n";
  return text;
}

bool has_note(const Plan& plan, const std::string& part) {
  return std::ranges::any_of(
      plan.notes, [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

TEST_CASE("a point has every default filled in") {
  const Plan plan = plan_of("[grid]\nmatrix = \"absent_a\"\nkernel = \"acc_spmm\"\n",
                            {"emulate", "model", "gpu"});

  REQUIRE(plan.entries.size() == 3);
  const Point& emulated = plan.entries[0].point;
  CHECK(emulated.matrix == "absent_a");
  const DenseProduct& product = dense(plan.entries[0]);
  CHECK(to_text(product.values) == "auto");
  CHECK(product.n == 128);
  CHECK(product.seed == 42);
  CHECK(emulated.reorder.name == "none");
  CHECK(product.format.name == "bit_tcf");
  CHECK(product.kernel.params.text("precision") == "tf32");
  CHECK(emulated.device == "h200");
  CHECK(emulated.model.name.empty());
  CHECK(plan.entries[1].point.model.name == "roofline");
  CHECK(plan.entries[1].point.device == "h200");
  CHECK(plan.entries[2].point.device.empty());
  CHECK(plan.entries[2].point.measure.l2 == "warm");
  CHECK(plan.entries[0].hash == params_hash(emulated));
}

TEST_CASE("matrices vary slowest, then the grid in the order written, backends fastest") {
  const Plan plan = plan_of(
      "[grid]\nseed = [1, 2]\nn = [8, 16]\nmatrix = [\"absent_b\", \"absent_a\"]\n"
      "kernel = \"csr_spmm\"\n",
      {"emulate", "gpu"});

  const std::string order = lines(plan, [](const PlanEntry& e) {
    return fmt::format("{} {} {} {}", e.point.matrix, dense(e).seed, dense(e).n, e.point.backend);
  });
  CHECK(
      order.starts_with("absent_b 1 8 emulate\nabsent_b 1 8 gpu\nabsent_b 1 16 emulate\n"
                        "absent_b 1 16 gpu\nabsent_b 2 8 emulate\n"));
  CHECK(plan.entries.size() == 16);

  const Plan cases = plan_of(
      "[grid]\nn = [8, 16]\nkernel = \"csr_spmm\"\n[[case]]\nname = \"x\"\nmatrix = \"absent_x\"\n"
      "[[case]]\nname = \"y\"\nmatrix = \"absent_y\"\nn = 32\n");
  CHECK(lines(cases, [](const PlanEntry& e) {
          return fmt::format("{} {} {}", e.labels.at("case"), e.point.matrix, dense(e).n);
        }) == "x absent_x 8\nx absent_x 16\ny absent_y 32\n");
  CHECK(has_note(cases, "1 of 4 points are the same as others and merged"));
}

TEST_CASE("a zip moves its axes together") {
  const Plan plan = plan_of(
      "[grid]\nkernel = \"csr_spmm\"\n[[zip]]\nmatrix = [\"absent_a\", \"absent_b\"]\nn = [8, 16]\n"
      "[[zip]]\nseed = [1, 2]\nreorder = [\"none\", \"degree\"]\n");

  CHECK(lines(plan, [](const PlanEntry& e) {
          return fmt::format("{} {} {} {}", e.point.matrix, dense(e).n, dense(e).seed,
                             e.point.reorder.name);
        }) == "absent_a 8 1 none\nabsent_a 8 2 degree\nabsent_b 16 1 none\nabsent_b 16 2 degree\n");
}

TEST_CASE("the three modes of an ablation stack, leave out and try single steps") {
  const auto steps = [](const std::string& mode) {
    return lines(plan_of("[grid]\nmatrix = \"absent_a\"\nn = 8\n[ablation]\nmode = \"" + mode +
                         "\"\nbase = { name = \"Base\", kernel = \"csr_spmm\", n = 16 }\n"
                         "step = [{ name = \"+RO\", reorder = \"degree\" }, "
                         "{ name = \"+TC\", kernel = \"acc_spmm\", precision = \"tf32_raw\" }]\n"),
                 [](const PlanEntry& e) {
                   return fmt::format("{}: {} {} {}", e.labels.at("step"), e.point.reorder.name,
                                      dense(e).kernel.name, dense(e).n);
                 });
  };

  CHECK(steps("cumulative") ==
        "Base: none csr_spmm 16\n+RO: degree csr_spmm 16\n+TC: degree acc_spmm 16\n");
  CHECK(steps("one_at_a_time") ==
        "Base: none csr_spmm 16\n+RO: degree csr_spmm 16\n+TC: none acc_spmm 16\n");
  CHECK(steps("leave_one_out") ==
        "all: degree acc_spmm 16\n-RO: none acc_spmm 16\n-TC: degree csr_spmm 16\n");
}

TEST_CASE("a parameter goes to the variant that declares it and is left out elsewhere") {
  const Plan plan = plan_of(
      "[grid]\nmatrix = \"absent_a\"\nkernel = [\"csr_spmm\", \"acc_spmm\"]\n"
      "precision = [\"tf32\", \"tf32_raw\"]\n");

  CHECK(lines(plan, [](const PlanEntry& e) {
          const Json kernel = to_json(e.point).at("kernel");
          return kernel.at("name").get<std::string>() + " " + kernel.value("precision", "none");
        }) == "csr_spmm none\nacc_spmm tf32\nacc_spmm tf32_raw\n");
  CHECK(has_note(plan, "precision does not apply to kernel csr_spmm and is left out there"));
  CHECK_FALSE(has_note(plan, "reorder none"));
  CHECK(has_note(plan, "1 of 4 points are the same as others and merged"));
}

TEST_CASE("a parameter two variants declare has to say whose it is") {
  const std::string both =
      "[grid]\nmatrix = \"absent_a\"\nkernel = \"acc_spmm\"\nreorder = \"toy_order\"\n";

  CHECK(error_of(both + "precision = \"tf32_raw\"\n") ==
        "c.toml:9:13: precision is a parameter of the reorder and of the kernel: write "
        "\"reorder.precision\"");
  const Plan plan =
      plan_of(both + "\"kernel.precision\" = \"tf32_raw\"\n\"reorder.precision\" = \"down\"\n");
  CHECK(dense(plan.entries.at(0)).kernel.params.text("precision") == "tf32_raw");
  CHECK(plan.entries.at(0).point.reorder.params.text("precision") == "down");
  const Plan in_a_table = plan_of(
      "[grid]\nmatrix = \"absent_a\"\nkernel = { name = \"acc_spmm\", precision = \"tf32_raw\" "
      "}\nreorder = \"toy_order\"\n");
  CHECK(dense(in_a_table.entries.at(0)).kernel.params.text("precision") == "tf32_raw");
  CHECK(error_of("[grid]\nmatrix = \"absent_a\"\nkernel = { name = \"acc_spmm\", precision = "
                 "\"tf32_raw\" }\nprecision = \"tf32\"\n") ==
        "c.toml:8:13: precision is given twice, the other one is at c.toml:7:43");
}

TEST_CASE("a kernel that reads several formats takes the format of the point") {
  const std::string head = "[grid]\nmatrix = \"absent_a\"\n";
  const std::string bytes = "{ name = \"me_tcf\", window_rows = 8 }";
  const auto told = [](const Plan& plan) {
    return lines(plan, [](const PlanEntry& e) {
      return to_text(dense(e).format) + " " + dense(e).kernel.params.text("format");
    });
  };

  CHECK(told(plan_of(head + "kernel = \"acc_spmm\"\nformat = [\"bit_tcf\", " + bytes + "]\n")) ==
        "bit_tcf bit_tcf\nme_tcf(window_rows=8) me_tcf\n");
  CHECK(told(plan_of(head + "kernel = { name = \"acc_spmm\", format = \"me_tcf\" }\n"
                            "window_rows = 8\n")) == "me_tcf(window_rows=8) me_tcf\n");
  CHECK(error_of(head + "kernel = { name = \"acc_spmm\", format = \"csr\" }\n") ==
        "c.toml:7:40: kernel acc_spmm reads format bit_tcf, not csr");
  CHECK(error_of(head + "kernel = \"windows_spmm\"\nformat = " + bytes + "\n") ==
        "c.toml:8:19: kernel windows_spmm reads format bit_tcf, not me_tcf");
}

TEST_CASE("what a backend does not look at is left out, and points merge") {
  const Plan plan = plan_of(
      "[grid]\nmatrix = \"absent_a\"\nkernel = \"csr_spmm\"\ndevice = [\"h200\", \"h100-sxm\"]\n"
      "l2 = [\"warm\", \"flush\"]\n",
      {"emulate", "gpu"});

  CHECK(lines(plan, [](const PlanEntry& e) {
          return e.point.backend + " " + e.point.device + " " + e.point.measure.l2;
        }) == "emulate h200 warm\ngpu  warm\ngpu  flush\nemulate h100-sxm warm\n");
  CHECK(has_note(plan, "device does not apply to backend gpu"));
  CHECK(has_note(plan, "l2 does not apply to backend emulate"));
  CHECK(has_note(plan, "4 of 8 points"));
}

TEST_CASE("products with a dense B are replayed where the config asks for it, and no other task") {
  const std::string head = "[measure]\nlaunch = \"graph\"\n[grid]\nmatrix = \"absent_a\"\n";
  const auto launches = [](const Plan& plan) {
    return lines(plan, [](const PlanEntry& e) { return e.point.measure.launch; });
  };

  CHECK(launches(plan_of(head + "kernel = [\"csr_spmm\", \"csr_spgemm\"]\n", {"gpu"})) ==
        "graph\nstream\n");
  CHECK(launches(plan_of(head + "format = \"csr\"\n", {"pack_gpu"})) == "stream\n");
}

TEST_CASE("what cannot be is an error with its place") {
  const auto error = [](const std::string& lines) {
    return error_of("[grid]\nmatrix = \"absent_a\"\nkernel = \"acc_spmm\"\n" + lines);
  };
  CHECK(error("") == "no error");
  CHECK(error("precisio = \"tf32_raw\"\n")
            .starts_with("c.toml:8:12: unknown axis or parameter 'precisio', did you mean "
                         "'precision'; known: matrix, n, seed, "));
  CHECK(error("\"kernel.precisio\" = \"tf32_raw\"\n")
            .starts_with("c.toml:8:21: unknown axis or parameter 'kernel.precisio', did you mean "
                         "'kernel.precision'"));
  CHECK(error("\"kernal.precision\" = \"tf32_raw\"\n") ==
        "c.toml:8:22: unknown owner of a parameter 'kernal', did you mean 'kernel'; known: "
        "reorder, format, kernel, model, values");
  CHECK(error("precision = \"up\"\n") ==
        "c.toml:8:13: kernel acc_spmm: unknown value for precision 'up'; known: tf32, tf32_raw, "
        "tf32x3, tf32x3_promoted");
  CHECK(error("reorder = \"toy_order\"\ndepth = 9\n") ==
        "c.toml:9:9: reordering toy_order: depth = 9 is outside [1, 8]");
  CHECK(error("reorder = \"toy_order\"\nshare = \"half\"\n") ==
        "c.toml:9:9: reordering toy_order: share takes a number, not 'half'");
  CHECK(error("reorder = \"degre\"\n")
            .starts_with("c.toml:8:11: unknown reordering 'degre', did you mean 'degree'"));
  CHECK(error("format = \"csr\"\n") ==
        "c.toml:8:10: kernel acc_spmm reads format bit_tcf, not csr");
  CHECK(error("n = [8, 0]\n") == "c.toml:8:9: n takes an integer of at least 1, not 0");
  CHECK(error("n = 1.5\n") == "c.toml:8:5: n takes an integer of at least 1, not 1.5");
  CHECK(error("seed = -1\n") == "c.toml:8:8: seed takes an integer of at least 0, not -1");
  CHECK(error("values = \"ones\"\n").starts_with("c.toml:8:10: unknown value family 'ones'"));
  CHECK(error("l2 = \"cold\"\n") == "c.toml:8:6: unknown value for l2 'cold'; known: warm, flush");
  CHECK(error("device = \"h20\"\n").starts_with("c.toml:8:10: unknown device 'h20'"));
  CHECK(error("model = 3\n") == "c.toml:8:9: model takes a name, not 3");
  CHECK(error("backend = \"gpu\"\n") ==
        "c.toml:8:11: backend is no axis: [experiment] backends lists them");
  CHECK(error("[[zip]]\nn = [1]\nkernel = [\"csr_spmm\"]\n") ==
        "c.toml:10:11: kernel is given twice, the other one is at c.toml:7:10");
  CHECK(error_of("[grid]\nmatrix = \"absent_a\"\n").starts_with("c.toml: no kernel is given"));
  CHECK(error_of("[grid]\nkernel = \"acc_spmm\"\n").starts_with("c.toml: no matrix is given"));
  CHECK(error_of("[grid]\nmatrix = \"absent_a\"\nkernel = \"acc_spmm\"\n", {"gpus"})
            .starts_with("unknown backend 'gpus', did you mean 'gpu'"));
}

TEST_CASE("value families take parameters as a call, a table, or an axis of their own") {
  const auto values = [](const std::string& rest) {
    return lines(plan_of("[grid]\nmatrix = \"absent_a\"\nkernel = \"csr_spmm\"\n" + rest),
                 [](const PlanEntry& e) { return to_text(dense(e).values); });
  };

  CHECK(values("values = [\"normal\", \"cancelling(condition=1e3)\", \"lognormal\"]\n") ==
        "normal\ncancelling(condition=1000)\nlognormal(sigma=3)\n");
  CHECK(values("values = { name = \"cancelling\", condition = 50 }\n") ==
        "cancelling(condition=50)\n");
  CHECK(values("values = \"cancelling\"\n\"values.condition\" = [1e1, 1e2]\n") ==
        "cancelling(condition=10)\ncancelling(condition=100)\n");
  CHECK(values("values = [\"random\", \"cancelling\"]\ncondition = [1e1, 1e2]\n") ==
        "random\ncancelling(condition=10)\ncancelling(condition=100)\n");

  const auto error = [](const std::string& rest) {
    return error_of("[grid]\nmatrix = \"absent_a\"\nkernel = \"csr_spmm\"\n" + rest);
  };
  CHECK(error("values = \"cancelling(condition=1)\"\n") ==
        "c.toml:8:10: value family cancelling: condition = 1 is outside [2, 10000000]");
  CHECK(error("values = \"normal(sigma=1)\"\n").starts_with("c.toml:8:10: value family normal: "));
  CHECK(error("values = \"cancelling(condition=9\"\n").starts_with("c.toml:8:10: "));
  CHECK(error("values = \"cancelling(condition=9)\"\n\"values.condition\" = 3\n")
            .find("condition is given twice") != std::string::npos);
}

TEST_CASE("an absent matrix keeps its name, a name that cannot be is refused, a file is found") {
  const TemporaryFolder folder;
  write_text(folder / "a.mtx", "%%MatrixMarket matrix coordinate real general\n1 1 0\n");
  const auto matrix = [&](const std::string& name) {
    return plan_of("[grid]\nkernel = \"csr_spmm\"\nmatrix = '" + name + "'\n")
        .entries.at(0)
        .point.matrix;
  };

  CHECK(matrix("absent_a") == "absent_a");
  CHECK(matrix("absent/absent_a") == "absent/absent_a");
  CHECK(matrix(folder / "a.mtx") == find_matrix(folder / "a.mtx").path);
  CHECK(error_of("[grid]\nkernel = \"csr_spmm\"\nmatrix = \"rmat(scale=\"\n")
            .starts_with("c.toml:7:10: "));
  CHECK(error_of("[grid]\nkernel = \"csr_spmm\"\nmatrix = \"\"\n") ==
        "c.toml:7:10: the name of a matrix is empty");
}

TEST_CASE("a plan that could not end is refused before it is made") {
  std::string grid = "[grid]\nmatrix = \"absent_a\"\nkernel = \"csr_spmm\"\n";
  for (const char* key : {"n", "seed"}) {
    grid += std::string(key) + " = [1";
    for (int i = 2; i <= 1001; ++i) grid += fmt::format(",{}", i);
    grid += "]\n";
  }

  CHECK(error_of(grid) == "c.toml: 1e+06 points; a plan has at most 1000000");
}

/// A random grid over everything a point has, and how many distinct points it stands for.
std::string random_grid(RandomSequence& random, std::size_t& points) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> axes{
      {"matrix", {"\"absent_a\"", "\"absent_b\"", "\"absent_c\"", "\"absent_d\""}},
      {"n", {"1", "8", "32", "128"}},
      {"seed", {"0", "7", "9223372036854775807"}},
      {"values", {"\"auto\"", "\"random\"", "\"stored\""}},
      {"depth", {"1", "2", "3"}},
      {"share", {"0.25", "0.1", "1e-300"}},
      {"device", {"\"h200\"", "\"h100-sxm\""}}};
  std::string grid = "[grid]\nkernel = \"csr_spmm\"\nreorder = \"toy_order\"\n";
  points = 1;
  for (const auto& [key, values] : axes) {
    const std::size_t count = (key == "matrix" ? 1 : 0) + random.below(values.size());
    if (count == 0) continue;
    grid += key + " = [";
    for (std::size_t i = 0; i < count; ++i) grid += values[i] + ", ";
    grid += "]\n";
    points *= count;
  }
  return grid;
}

TEST_CASE("a random grid expands to its product, shards partition it, points survive JSON") {
  RandomSequence random(3);
  for (int round = 0; round < 40; ++round) {
    std::size_t points = 0;
    const std::string grid = random_grid(random, points);
    const std::vector<std::string> backends{round % 2 == 0 ? "emulate" : "model"};
    const Plan plan = plan_of(grid, backends);
    INFO(grid);

    REQUIRE(plan.entries.size() == points);
    std::set<std::string> hashes;
    for (const PlanEntry& entry : plan.entries) {
      const Json json = to_json(entry.point);
      REQUIRE(to_json(point_from_json(Json::parse(json.dump()))).dump() == json.dump());
      REQUIRE(hashes.insert(entry.hash).second);
    }

    const int count = 1 + static_cast<int>(random.below(6));
    std::map<std::string, int> shard_of;
    std::size_t dealt = 0;
    for (int index = 1; index <= count; ++index) {
      const Plan part = shard(plan, index, count);
      dealt += part.entries.size();
      for (const PlanEntry& entry : part.entries) {
        REQUIRE(hashes.erase(entry.hash) == 1);
        REQUIRE(shard_of.try_emplace(entry.point.matrix, index).first->second == index);
      }
    }
    REQUIRE(dealt == points);
  }
}

TEST_CASE("shards are dealt the costliest matrix first, to the shard that has least") {
  Plan plan;
  for (const auto& [matrix, cost] : std::vector<std::pair<std::string, double>>{
           {"a", 2}, {"b", 3}, {"b", 4}, {"c", 5}, {"d", 4}}) {
    PlanEntry& entry = plan.entries.emplace_back();
    entry.point.matrix = matrix;
    entry.cost = cost;
  }
  const auto matrices = [&](int index) {
    return lines(shard(plan, index, 2), [](const PlanEntry& e) { return e.point.matrix; });
  };

  CHECK(matrices(1) == "a\nb\nb\n");
  CHECK(matrices(2) == "c\nd\n");
  CHECK(shard(plan, 4, 2'147'483'647).entries.size() == 1);
  CHECK(shard(plan, 5, 2'147'483'647).entries.empty());
  CHECK(shard({}, 1, 2'147'483'647).entries.empty());
  CHECK_THROWS_WITH_AS(shard(plan, 0, 2),
                       "shard 0/2: the first number has to be from 1 to the second", Error);
  CHECK_THROWS_AS(shard(plan, 3, 2), Error);
  CHECK_THROWS_AS(shard(plan, 1, 0), Error);
}

TEST_CASE("the cost of an entry follows the size of its file and the width of B") {
  const TemporaryFolder folder;
  write_text(folder / "small.mtx", std::string(100, '%'));
  write_text(folder / "large.mtx", std::string(300, '%'));

  const Plan plan =
      plan_of(fmt::format("[grid]\nkernel = \"csr_spmm\"\nn = [1, 4]\n"
                          "matrix = [\"{}\", \"{}\", \"absent_a\"]\n",
                          folder / "small.mtx", folder / "large.mtx"));

  CHECK(lines(plan, [](const PlanEntry& e) { return fmt::format("{}", e.cost); }) ==
        "100\n400\n300\n1200\n200\n800\n");
}

/// A point of the backend with nothing at its default.
Point whole_point(const std::string& backend) {
  return plan_of(
             "[measure]\nl2 = \"flush\"\n[grid]\nmatrix = \"absent_a\"\nkernel = \"acc_spmm\"\n",
             {backend})
      .entries.at(0)
      .point;
}

TEST_CASE("the hash of a point changes with every field that applies, and with no other") {
  const std::vector<std::pair<std::string, std::function<void(Point&)>>> edits{
      {"all", [](Point& p) { p.matrix = "absent_b"; }},
      {"all", [](Point& p) { dense(p).values = parse_values("stored"); }},
      {"all", [](Point& p) { dense(p).n = 64; }},
      {"all", [](Point& p) { dense(p).seed = 43; }},
      {"all", [](Point& p) { p.reorder.name = "degree"; }},
      {"all", [](Point& p) { dense(p).format.name = "csr"; }},
      {"all", [](Point& p) { dense(p).kernel.name = "csr_spmm"; }},
      {"all",
       [](Point& p) {
         dense(p).kernel.params = Registry<SpmmKernel>::instance().resolve(
             "acc_spmm", {{"precision", std::string("tf32_raw")}});
       }},
      {"model", [](Point& p) { p.model.name = "another"; }},
      {"emulate model", [](Point& p) { p.device = "a100-80gb"; }},
      {"emulate gpu", [](Point& p) { p.check.enabled = false; }},
      {"emulate gpu", [](Point& p) { p.check.against_fp32 = true; }},
      {"gpu", [](Point& p) { p.measure.l2 = "warm"; }},
      {"gpu", [](Point& p) { p.measure.launch = "graph"; }},
      {"gpu", [](Point& p) { p.measure.warmup = 6; }},
      {"gpu", [](Point& p) { p.measure.min_samples = 21; }},
      {"gpu", [](Point& p) { p.measure.max_samples = 999; }},
      {"gpu", [](Point& p) { p.measure.noise = 0.5; }},
      {"gpu", [](Point& p) { p.measure.max_seconds = 3; }}};

  for (const std::string backend : {"emulate", "model", "gpu"}) {
    const Point point = whole_point(backend);
    for (std::size_t i = 0; i < edits.size(); ++i) {
      const auto& [applies_to, edit] = edits[i];
      Point edited = point;
      edit(edited);
      const bool applies = applies_to == "all" || applies_to.find(backend) != std::string::npos;
      INFO(backend << ", edit " << i);
      CHECK((params_hash(edited) != params_hash(point)) == applies);
    }
    CHECK(params_hash(point).size() == 16);
  }
}

TEST_CASE("a sampled simulation is another point, and of no other backend") {
  const auto planned = [](const char* section) {
    return plan_of(std::string(section) + "[grid]\nmatrix = \"absent_a\"\nkernel = \"csr_spmm\"\n",
                   {"simulate", "model"})
        .entries;
  };

  const auto whole = planned(""), off = planned("[simulate]\nsample = \"off\"\n");
  const auto sampled = planned("[simulate]\nsample = 8\n");
  const auto by_size = planned("[simulate]\nsample = \"auto\"\n");

  CHECK(params_hash(off[0].point) == params_hash(whole[0].point));
  CHECK_FALSE(to_json(whole[0].point).contains("sample"));
  CHECK(params_hash(sampled[0].point) != params_hash(whole[0].point));
  CHECK(params_hash(by_size[0].point) != params_hash(sampled[0].point));
  CHECK(params_hash(sampled[1].point) == params_hash(whole[1].point));
  Json json = to_json(sampled[0].point);
  CHECK(json["sample"] == "8");
  CHECK(to_json(point_from_json(json)) == json);
  for (const Json& wrong : {Json("off"), Json(""), Json("3"), Json(8)}) {
    json["sample"] = wrong;
    CHECK_THROWS_AS(point_from_json(json), Error);
  }
  CHECK(error_of("[simulate]\nsample = 2\n") ==
        "c.toml:6:10: sample = '2': expected off, auto, or a number of stretches, 4 or more");
}

TEST_CASE("a point keeps the hash that records of it have had since they were written") {
  const Json json =
      Json::parse(R"({"backend":"emulate","check":true,"device":"h200","format":{"name":"csr"},)"
                  R"("kernel":{"name":"csr_spmm"},"matrix":"elast-dolphin5K-ref1","n":32,)"
                  R"("reorder":{"name":"none"},"seed":42,"values":"auto"})");

  CHECK(params_hash(point_from_json(json)) == "f2d803d70f581dbe");
}

TEST_CASE("the JSON form of a point is refused with the key that is wrong") {
  const Json good = to_json(whole_point("gpu"));
  const auto error = [&](const std::string& pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    try {
      point_from_json(json);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };

  CHECK(error("/n", 64) == "no error");
  CHECK(error("/n", "64") == "n: an integer was expected, not \"64\"");
  CHECK(error("/n", 1.5) == "n: an integer was expected, not 1.5");
  CHECK(error("/n", 0) == "n: at least 1 column was expected, not 0");
  CHECK(error("/seed", -1) == "seed: an integer of at least 0 was expected, not -1");
  CHECK(error("/against_fp32", true) == "no error");
  CHECK(error("/against_fp32", false) == "against_fp32: a point has it only when it is true");
  CHECK(error("/check", 1) == "check: true or false was expected, not 1");
  CHECK(error("/values", "ones").starts_with("unknown value family 'ones'"));
  CHECK(error("/values", "cancelling") ==
        "values: 'cancelling' is 'cancelling(condition=10000)' in a point");
  CHECK(error("/values", "cancelling(condition=10)") == "no error");
  CHECK(error("/kernel", "acc_spmm") == "kernel: an object was expected, not string");
  CHECK(error("/kernel/precision", nullptr) == "kernel.precision: text was expected, not null");
  CHECK(error("/kernel/precisio", "tf32_raw").find("unknown parameter 'precisio', did you mean") !=
        std::string::npos);
  CHECK(error("/kernel", {{"name", "acc_spmm"}}) == "a point needs 'kernel.precision'");
  CHECK(error("/measure/noise", -1) == "measure.noise = -1: it takes 0 or more");
  CHECK(error("/measure/nois", 1).find("unknown key of a point 'measure.nois'") !=
        std::string::npos);
  CHECK(error("/device", "h200").find("unknown key of a point 'device'") != std::string::npos);
  CHECK(error("/backend", "gpus").starts_with("unknown backend 'gpus', did you mean 'gpu'"));
  Json without = good;
  without.erase("matrix");
  CHECK_THROWS_WITH_AS(point_from_json(without), "a point needs 'matrix'", Error);
  CHECK_THROWS_WITH_AS(point_from_json(Json::array()), "a point: an object was expected, not array",
                       Error);
}

}  // namespace
}  // namespace tessera
