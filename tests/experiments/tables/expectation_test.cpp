// Expectations, both ways: what agrees with a paper's number is met, what does not is not.
#include "experiments/tables/expectation.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <regex>

#include "formats/base/check.hpp"
#include "tests/planted_records.hpp"

namespace tessera {
namespace {

// The predictions: csr_spmm 48 and 96 us, acc_spmm 16 and 32 us.
const std::string kHead =
    "[[expect]]\nname = \"speed\"\nsource = \"Table 9\"\ncolumn = \"time_us\"\n";
const std::string kAcc = "where = { kernel = \"acc_spmm\" }\n";
const std::string kCsr = "where = { kernel = \"csr_spmm\" }\n";
const std::string kToAcc = "relative_to = { kernel = \"acc_spmm\", backend = \"model\" }\n";

ExpectationResult judged(const std::string& rest) {
  const auto found = planted_experiment(kHead + rest);
  return judge(found.config.expects.at(0), found.rows, found.config);
}

bool is_met(const std::string& rest) {
  const Verdict verdict = judged(rest).verdict;
  CHECK(verdict != Verdict::kNotJudged);
  return verdict == Verdict::kMet;
}

std::string error_of(const std::string& config_text) {
  try {
    const auto found = planted_experiment(config_text);
    judge(found.config.expects.at(0), found.rows, found.config);
  } catch (const Error& error) {
    return std::regex_replace(error.what(), std::regex("[^ ]*/c\\.toml"), "c.toml");
  }
  return "no error";
}

TEST_CASE("every statistic is over the rows chosen") {
  const auto found = [](const std::string& name) {
    return judged(kAcc + "value = 1\nstatistic = \"" + name + "\"\n").found;
  };

  CHECK(found("min") == 16);
  CHECK(found("max") == 32);
  CHECK(found("mean") == 24);
  CHECK(found("median") == 24);
  CHECK(found("geomean") == doctest::Approx(22.6274));
  CHECK(judged("value = 1\nstatistic = \"median\"\n").found == 40);
  CHECK(judged(kAcc + "value = 1\n").found == doctest::Approx(22.6274));
}

TEST_CASE("a rank correlation is of two columns of the rows that have both") {
  const std::string kCorrelation = "value = 1\nstatistic = \"rank_correlation\"\nwith = ";
  const auto all = [&](const std::string& with) {
    return judged("where = { backend = \"model\" }\n" + kCorrelation + "\"" + with + "\"\n" +
                  "[[derive]]\nname = \"rate\"\nexpr = \"1 / time_us\"\n");
  };

  CHECK(judged(kAcc + kCorrelation + "\"nnz\"\n").found == doctest::Approx(1));
  CHECK(all("nnz").found == doctest::Approx(2 / std::sqrt(20)));  // ties share their ranks
  CHECK(all("rate").found == doctest::Approx(-1));
  CHECK(all("rate").values == 4);
  CHECK(all("n").found == 0);  // the same everywhere
  CHECK(error_of(kHead + kCorrelation + "\"\"\n").find("takes the other column in 'with'") !=
        std::string::npos);
  CHECK(error_of(kHead + "value = 1\nwith = \"n\"\n").find("takes the other column in 'with'") !=
        std::string::npos);
  CHECK(error_of(kHead + kCorrelation + "\"nmz\"\n").find("nmz") != std::string::npos);
}

TEST_CASE("a number is met within its tolerance, and not beyond") {
  const auto met = [](const std::string& value, const std::string& tolerance) {
    return is_met(kAcc + "statistic = \"mean\"\nvalue = " + value + tolerance);
  };

  CHECK(met("24", "\n"));
  CHECK(met("22", "\n"));  // a tenth, unless told otherwise
  CHECK_FALSE(met("21.8", "\n"));
  CHECK_FALSE(met("26.7", "\n"));
  CHECK(met("20", "\ntolerance = 0.2\n"));
  CHECK_FALSE(met("19.9", "\ntolerance = 0.2\n"));
  CHECK(met("24", "\ntolerance = 0\n"));
  CHECK_FALSE(met("24.01", "\ntolerance = 0\n"));
  CHECK_FALSE(met("-24", "\n"));
}

TEST_CASE("a trend is met on its side of the number, the number included") {
  const auto met = [](const std::string& trend, const std::string& value) {
    return is_met(kAcc + "statistic = \"mean\"\ntrend = \"" + trend + "\"\nvalue = " + value +
                  "\n");
  };

  CHECK(met("at_least", "24"));
  CHECK(met("at_least", "3"));
  CHECK_FALSE(met("at_least", "24.001"));
  CHECK(met("at_most", "24"));
  CHECK(met("at_most", "300"));
  CHECK_FALSE(met("at_most", "23.999"));
  CHECK(met("within", "24"));
  CHECK_FALSE(met("within", "3"));
}

TEST_CASE("ratios pair rows of one matrix and width") {
  const ExpectationResult result = judged(kCsr + kToAcc + "value = 3\ntolerance = 1e-12\n");
  const ExpectationResult missed = judged(kCsr + kToAcc + "value = 3.4\n");

  CHECK(result.verdict == Verdict::kMet);
  CHECK(result.found == doctest::Approx(3));
  CHECK(result.values == 2);
  CHECK(missed.verdict == Verdict::kRefuted);
}

TEST_CASE("rows without a partner, or that did not end well, take no part") {
  auto found = planted_experiment(kHead + kCsr + kToAcc + "value = 3\n");
  for (Json& record : found.records.points)
    if (record["params"]["kernel"]["name"] == "acc_spmm" &&
        record["params"]["matrix"] == "absent_a")
      record["status"] = "wrong";
  const auto rows = make_rows(found.plan, found.records, found.config);

  CHECK(judge(found.config.expects[0], rows, found.config).values == 1);
}

TEST_CASE("an expectation that nothing can be held against is neither met nor refuted") {
  const ExpectationResult result = judged("where = { matrix = \"cora\" }\nvalue = 3\n");

  CHECK(result.verdict == Verdict::kNotJudged);
  CHECK(result.values == 0);
  CHECK(result.text == "speed: not judged: 0 of 1 matrix (Table 9)");
}

/// A claim about the two matrices of the plan, judged when only the first of them has results that
/// ended with `status`, or `matrix` has in its place.
ExpectationResult judged_on_half(const std::string& rest, const std::string& status,
                                 const std::string& matrix = "absent_b") {
  auto found = planted_experiment(kHead + rest);
  const std::vector<Row> planned = planned_rows(found.plan);
  for (Row& row : found.rows)
    if (row.at("matrix") == "absent_b") row["status"] = status, row["matrix"] = matrix;
  const Expect& expect = found.config.expects.at(0);
  return judge(expect, found.rows, found.config, population_of(expect, planned, found.config));
}

TEST_CASE("a claim is judged once all the matrices it is about have results") {
  const std::string claim = kAcc + "value = 1\ntrend = \"at_least\"\n";

  CHECK(judged_on_half(claim, "ok").verdict == Verdict::kMet);
  CHECK(judged_on_half(claim, "skipped").verdict == Verdict::kNotJudged);
  CHECK(judged_on_half(claim, "skipped").text == "speed: not judged: 1 of 2 matrices (Table 9)");
  CHECK(judged_on_half(claim + "matrices = 1\n", "skipped").verdict == Verdict::kMet);
  CHECK(judged_on_half(claim + "matrices = 3\n", "ok").verdict == Verdict::kNotJudged);
  // Pairs need both of their rows.
  CHECK(judged_on_half(kCsr + kToAcc + "value = 3\n", "ok").verdict == Verdict::kMet);
  CHECK(judged_on_half(kCsr + kToAcc + "value = 3\n", "failed").verdict == Verdict::kNotJudged);
}

TEST_CASE("a claim about a kernel is not about matrices that the kernel refuses") {
  auto found = planted_experiment(kHead + kAcc + "value = 16\ntolerance = 1e-9\n");
  const std::vector<Row> planned = planned_rows(found.plan);
  const auto judged_without_b = [&](const std::string& cause) {
    std::vector<Row> rows = found.rows;
    for (Row& row : rows)
      if (row.at("matrix") == "absent_b") row["status"] = "skipped", row["skip"] = cause;
    const Expect& expect = found.config.expects.at(0);
    return judge(expect, rows, found.config, population_of(expect, planned, found.config));
  };

  for (const char* cause : {"kernel", "order", "format"})
    CHECK(judged_without_b(cause).verdict == Verdict::kMet);
  for (const char* cause : {kAbsentMatrix, "backend"})
    CHECK(judged_without_b(cause).verdict == Verdict::kNotJudged);
}

TEST_CASE("a claim about one matrix needs that one alone") {
  const std::string claim =
      "where = { kernel = \"acc_spmm\", matrix = \"absent_a\" }\nvalue = 16\n";

  CHECK(judged_on_half(claim, "skipped").verdict == Verdict::kMet);
  CHECK(judged_on_half(claim, "skipped").needed == 1);
}

TEST_CASE("a matrix that stands in for one that is absent takes no part in a claim") {
  const ExpectationResult result = judged_on_half(kAcc + "value = 16\n", "ok", "stand_in");
  const ExpectationResult enough =
      judged_on_half(kAcc + "value = 16\nmatrices = 1\ntolerance = 1e-9\n", "ok", "stand_in");

  CHECK(result.verdict == Verdict::kNotJudged);
  CHECK(enough.verdict == Verdict::kMet);  // 16 us are absent_a's, 32 the other's
  CHECK(enough.values == 1);
}

TEST_CASE("a claim about rows that results select waits for every matrix they are selected from") {
  const std::string claim =
      "where = { kernel = \"acc_spmm\", size = \"small\" }\nvalue = 16\n[[derive]]\n"
      "name = \"size\"\nof = \"nnz\"\nbins = [200]\nlabels = [\"small\", \"large\"]\n";
  const std::string none = std::regex_replace(claim, std::regex("\"small\" }"), "\"tiny\" }");

  CHECK(judged_on_half(claim, "ok").verdict == Verdict::kMet);
  CHECK(judged_on_half(claim, "ok").values == 1);
  CHECK(judged_on_half(claim, "skipped").verdict == Verdict::kNotJudged);
  CHECK(judged_on_half(none, "ok").verdict == Verdict::kNotJudged);
  CHECK(judged_on_half(none, "ok").text ==
        "speed: not judged: none of the results is what it is about (Table 9)");
}

TEST_CASE("a reduced name stands for the rows that it is the best of") {
  const std::string claim =
      "where = { kernel = \"Best\" }\nvalue = 22.6\n[[reduce]]\nname = \"Best\"\n"
      "where = { backend = \"model\" }\n";

  CHECK(judged_on_half(claim, "ok").needed == 2);
  CHECK(judged_on_half(claim, "ok").verdict == Verdict::kMet);
  CHECK(judged_on_half(claim, "skipped").verdict == Verdict::kNotJudged);
}

TEST_CASE("the verdict is one line with both numbers and the source") {
  CHECK(to_text(Verdict::kMet) == "met");
  CHECK(to_text(Verdict::kRefuted) == "refuted");
  CHECK(to_text(Verdict::kNotJudged) == "not judged");
  CHECK(judged(kAcc + "statistic = \"mean\"\nvalue = 25\n").text ==
        "speed: mean time_us over 2 is 24, expected about 25 (Table 9): met");
  CHECK(judged(kAcc + "statistic = \"mean\"\nvalue = 25\ntrend = \"at_least\"\n").text ==
        "speed: mean time_us over 2 is 24, expected at least 25 (Table 9): NOT met");
}

TEST_CASE("an expectation that cannot be judged is an error with its place") {
  const auto replaced = [](const std::string& column) {
    return std::regex_replace(kHead, std::regex("time_us"), column) + "value = 1\n";
  };

  CHECK(error_of(replaced("tme_us"))
            .starts_with("c.toml:11:1: unknown column 'tme_us', did you mean 'time_us'"));
  CHECK(error_of(kHead + "value = 1\nmatrices = 0\n")
            .starts_with("c.toml:16:12: matrices takes 1 or more, not 0"));
  CHECK(error_of(replaced("kernel")) ==
        "c.toml:11:1: [[expect]] is about numbers, and 'kernel' holds \"csr_spmm\"");
  CHECK(error_of(kHead + "value = 1\nwhere = { kernl = \"a\" }\n").find("unknown column 'kernl'") !=
        std::string::npos);
  CHECK(error_of(kHead + "value = 1\nrelative_to = { kernl = \"a\" }\n")
            .find("unknown column 'kernl'") != std::string::npos);
  CHECK(error_of(kHead + "value = 1\n" + kCsr + "relative_to = { backend = \"model\" }\n") ==
        "c.toml:11:1: relative_to holds for two rows of matrix absent_a, n = 16: narrow it");
}

}  // namespace
}  // namespace tessera
