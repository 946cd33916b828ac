// Two sets of planted records, compared point by point.
#include "experiments/tables/comparison.hpp"

#include <doctest/doctest.h>

#include "tests/planted_records.hpp"

namespace tessera {
namespace {

Settings where(const std::string& column, Json value) {
  return {{column, {std::move(value), "here"}}};
}

/// The planted predictions: two matrices x (csr_spmm, acc_spmm), 16 us to 96 us.
RecordSet predictions() {
  RecordSet set = planted_experiment("").records;
  std::erase_if(set.points, [](const Json& record) { return record["origin"] != "modelled"; });
  return set;
}

/// The record of a point.
Json& record_of(RecordSet& set, const std::string& matrix, const std::string& kernel) {
  return *std::ranges::find_if(set.points, [&](const Json& record) {
    return record["params"]["matrix"] == matrix && record["params"]["kernel"]["name"] == kernel;
  });
}

/// The same products, measured: 20 samples with 1 % to either side.
RecordSet measurements() {
  RecordSet set = predictions();
  set.environments["e"] = {{"gpu", {{"name", "NVIDIA H200"}}},
                           {"host", {{"host", "here"}}},
                           {"build", {{"commit", "abc"}, {"dirty", false}}}};
  for (Json& record : set.points) {
    const double us = record["prediction"]["time_us"];
    record["origin"] = "measured";
    record["env_id"] = "e";
    record["params"]["backend"] = "gpu";
    for (const char* part : {"device", "model"}) record["params"].erase(part);
    record.erase("prediction");
    record["time"] = {
        {"median_us", us}, {"p5_us", 0.99 * us}, {"p95_us", 1.01 * us}, {"n", 20}, {"l2", "warm"}};
  }
  return set;
}

void scale_time(Json& record, double factor) {
  for (const char* name : {"median_us", "p5_us", "p95_us"})
    record["time"][name] = factor * record["time"][name].get<double>();
}

/// "absent_a/csr_spmm slower": the pairs, in order.
std::string told(const SetComparison& found) {
  std::string text;
  for (const ComparedPair& pair : found.pairs)
    text += fmt::format("{}{}/{} {}", text.empty() ? "" : ", ", cell_text(pair.a, "matrix"),
                        cell_text(pair.a, "kernel"), to_text(pair.change));
  return text;
}

TEST_CASE("points are paired whatever their order, and every difference of a prediction counts") {
  const RecordSet a = predictions();
  RecordSet b = predictions();
  std::ranges::reverse(b.points);
  record_of(b, "absent_a", "csr_spmm")["prediction"]["time_us"] = 48.001;
  record_of(b, "absent_b", "acc_spmm")["prediction"]["time_us"] = 16;

  const SetComparison found = compare_sets(a, b, {}, {}, {});

  CHECK(told(found) ==
        "absent_a/csr_spmm slower, absent_a/acc_spmm same, absent_b/csr_spmm same, "
        "absent_b/acc_spmm faster");
  CHECK(found.pairs[3].time->speed == doctest::Approx(2));
  REQUIRE(found.groups.size() == 1);
  CHECK(found.groups[0].origin == "modelled");
  CHECK(found.groups[0].counts.at(Change::kSame) == 2);
  CHECK(found.groups[0].speed->speed == doctest::Approx(std::pow(2.0 * 48 / 48.001, 0.25)));
  CHECK(found.only_a.empty());
  CHECK(varying_columns(found.pairs, {}) == std::vector<std::string>{"matrix", "kernel"});
}

TEST_CASE("measured times differ from the threshold on, and where their samples leave no doubt") {
  const RecordSet a = measurements();
  RecordSet b = measurements();
  scale_time(record_of(b, "absent_a", "csr_spmm"), 1.1);
  scale_time(record_of(b, "absent_a", "acc_spmm"), 1.01);
  scale_time(record_of(b, "absent_b", "csr_spmm"), 1.052);

  CHECK(told(compare_sets(a, b, {}, {}, {})) ==
        "absent_a/csr_spmm slower, absent_a/acc_spmm same, absent_b/csr_spmm ambiguous, "
        "absent_b/acc_spmm same");
  CHECK(told(compare_sets(a, b, {}, {}, {.threshold = 0.2})) ==
        "absent_a/csr_spmm same, absent_a/acc_spmm same, absent_b/csr_spmm same, "
        "absent_b/acc_spmm same");
}

TEST_CASE("a point that was right and is wrong, failed or gone is told from a slower one") {
  const RecordSet a = predictions();
  RecordSet b = predictions();
  record_of(b, "absent_a", "csr_spmm")["status"] = "wrong";
  record_of(b, "absent_a", "acc_spmm")["status"] = "timeout";
  Json& skipped = record_of(b, "absent_b", "csr_spmm");
  skipped["status"] = "skipped";
  skipped["reason"] = "no GPU";
  std::erase(b.points, record_of(b, "absent_b", "acc_spmm"));

  const SetComparison found = compare_sets(a, b, {}, {}, {});
  CHECK(told(found) == "absent_a/csr_spmm broken, absent_a/acc_spmm broken");
  REQUIRE(found.only_a.size() == 2);
  CHECK(found.only_a[0].reason == "skipped in B: no GPU");
  CHECK(found.only_a[1].reason.empty());

  const SetComparison back = compare_sets(b, a, {}, {}, {});
  CHECK(told(back) == "absent_a/csr_spmm mended, absent_a/acc_spmm mended");
  CHECK(back.only_b.size() == 2);
  CHECK(told(compare_sets(b, b, {}, {}, {})) ==
        "absent_a/csr_spmm failing, absent_a/acc_spmm failing");
}

TEST_CASE("emulations have no time, and stay right or become wrong") {
  const RecordSet a = planted_experiment("").records;
  const SetComparison found =
      compare_sets(a, a, where("backend", "emulate"), where("backend", "emulate"), {});
  CHECK(found.groups[0].counts == std::map<Change, int>{{Change::kUntimed, 4}});
  CHECK_FALSE(found.groups[0].speed);
}

TEST_CASE("the column in which all of A differs from all of B is the one compared") {
  const RecordSet a = predictions();
  RecordSet b = predictions();
  for (Json& record : b.points) record["params"]["device"] = "a100-80gb";

  const SetComparison found = compare_sets(a, b, {}, {}, {});
  CHECK(found.by == std::vector<std::string>{"device"});
  CHECK(found.a_label == "h200");
  CHECK(found.groups[0].label == "a100-80gb");
  CHECK(found.pairs.size() == 4);

  record_of(b, "absent_a", "csr_spmm")["params"]["device"] = "h200";
  CHECK(told(compare_sets(a, b, {}, {}, {})) == "absent_a/csr_spmm same");
}

TEST_CASE("predictions meet measurements only where the backend is compared") {
  const RecordSet a = predictions(), b = measurements();
  CHECK(
      error_of([&] { compare_sets(a, b, {}, {}, {}); }) ==
      "no point of A has a partner in B; backend is model in A and gpu in B; --by COLUMN compares "
      "points that differ in a column");

  const SetComparison found = compare_sets(a, b, {}, {}, {.by = {"backend"}});
  CHECK(found.pairs.size() == 4);
  CHECK(found.groups[0].origin == "modelled/measured");
  CHECK(told(found).find("absent_a/csr_spmm same") == 0);
}

TEST_CASE("within one set every kernel is compared with the baseline, matrix by matrix") {
  RecordSet set = predictions();
  Json truncated = record_of(set, "absent_a", "acc_spmm");
  truncated["params"]["kernel"]["precision"] = "tf32_raw";
  truncated["params_hash"] = "other";
  truncated["prediction"]["time_us"] = 8;
  set.points.push_back(truncated);

  const SetComparison found = compare_within(set, {}, "csr_spmm", {.by = {"kernel"}});
  CHECK(found.a_label == "csr_spmm");
  REQUIRE(found.groups.size() == 2);
  CHECK(found.groups[0].label == "acc_spmm(precision=tf32)");
  CHECK(found.groups[0].pairs == 2);
  CHECK(found.groups[0].speed->speed == doctest::Approx(3));
  CHECK(found.groups[1].label == "acc_spmm(precision=tf32_raw)");
  CHECK(found.groups[1].speed->speed == doctest::Approx(6));
  CHECK(found.only_a.size() == 1);

  CHECK(compare_within(set, {}, "acc_spmm(precision=tf32)", {.by = {"kernel"}}).groups.size() == 2);
  CHECK(error_of([&] { compare_within(set, {}, "acc_spmm", {.by = {"kernel"}}); }) ==
        "--baseline acc_spmm: there are several: acc_spmm(precision=tf32); "
        "acc_spmm(precision=tf32_raw)");
  CHECK(error_of([&] {
          compare_within(set, {}, "csr_smpp", {.by = {"kernel"}});
        }).find("did you mean 'csr_spmm'") != std::string::npos);
  CHECK(error_of([&] {
          compare_within(set, {}, "", {.by = {"krenel"}});
        }).find("--by: unknown column 'krenel', did you mean 'kernel'") == 0);
}

TEST_CASE("one point on two commits is compared by commit, and otherwise its last attempt counts") {
  RecordSet set = measurements();
  set.environments["later"] = set.environments["e"];
  set.environments["later"]["build"]["commit"] = "def";
  for (Json record : measurements().points) {
    record["env_id"] = "later";
    scale_time(record, 0.5);
    set.points.push_back(record);
  }
  const SetComparison found = compare_within(set, {}, "abc", {.by = {"commit"}});
  CHECK(found.pairs.size() == 4);
  CHECK(found.groups[0].label == "def");
  CHECK(found.groups[0].counts == std::map<Change, int>{{Change::kFaster, 4}});

  const SetComparison last = compare_sets(measurements(), set, {}, {}, {});
  CHECK(last.groups[0].counts == std::map<Change, int>{{Change::kFaster, 4}});
}

TEST_CASE("a parameter that is younger than a record has its default there") {
  RecordSet a = predictions();
  const RecordSet b = predictions();
  for (Json& record : a.points) record["params"]["kernel"].erase("promote");
  CHECK(compare_sets(a, b, {}, {}, {}).pairs.size() == 4);
  CHECK(compare_sets(a, b, {}, {}, {}).by.empty());

  for (Json& record : a.points)
    if (record["params"]["kernel"]["name"] == "acc_spmm") record["params"]["kernel"]["promote"] = 4;
  CHECK(compare_sets(a, b, {}, {}, {}).pairs.size() == 2);
}

TEST_CASE("a matrix of the same name with another content is no partner") {
  RecordSet a = predictions(), b = predictions();
  record_of(a, "absent_a", "csr_spmm")["matrix"]["hash"] = "1";
  record_of(b, "absent_a", "csr_spmm")["matrix"]["hash"] = "2";
  const SetComparison found = compare_sets(a, b, {}, {}, {});
  CHECK(found.pairs.size() == 3);
  REQUIRE(found.only_a.size() == 1);
  CHECK(found.only_a[0].reason == "the matrix has another content in B");
  CHECK(found.only_b.size() == 1);
}

TEST_CASE(
    "selections choose the points of both sets, and points that nothing tells apart are refused") {
  const RecordSet set = predictions();
  const SetComparison kernels =
      compare_sets(set, set, where("kernel", "csr_spmm"), where("kernel", Json({"acc_spmm"})), {});
  CHECK(kernels.by == std::vector<std::string>{"kernel"});
  CHECK(kernels.groups[0].counts == std::map<Change, int>{{Change::kFaster, 2}});

  CHECK(error_of([&] { compare_sets(set, set, where("n", 7), {}, {}); }) ==
        "there is nothing to compare: A has no record that matches the selection");
  CHECK(error_of([&] { compare_sets(set, set, {}, {}, {.by = {"kernel"}}); }) ==
        "A has both 'csr_spmm' and 'acc_spmm' of kernel: choose one with --where-a");
  CHECK(error_of([&] {
          compare_sets(set, set, where("kernel", "csr_spmm"), {}, {.by = {"kernel.precision"}});
        }).find("unknown column") != std::string::npos);
}

}  // namespace
}  // namespace tessera
