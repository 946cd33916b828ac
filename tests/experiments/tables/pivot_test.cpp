// Kernels side by side: best values, speeds and means, worked out by hand.
#include "experiments/tables/pivot.hpp"

#include <doctest/doctest.h>

#include "tests/planted_records.hpp"

namespace tessera {
namespace {

Row row(const char* matrix, int n, const char* kernel, double time_us) {
  return {{"matrix", matrix}, {"n", n}, {"kernel", kernel}, {"status", "ok"}, {"time_us", time_us}};
}

PivotRule times(std::string baseline = "") {
  return {.measure = "time_us",
          .series = "kernel",
          .keys = {"matrix", "n"},
          .baseline = std::move(baseline)};
}

TEST_CASE("the best of a line is marked, and speeds are relative to the baseline") {
  const std::vector<Row> rows{row("x", 32, "a", 10), row("x", 32, "b", 5), row("y", 32, "a", 10),
                              row("y", 32, "b", 40)};
  const Pivot pivot = make_pivot(rows, times("a"));

  CHECK(pivot.series == std::vector<std::string>{"a", "b"});
  REQUIRE(pivot.lines.size() == 2);
  CHECK(pivot.lines[0].cells[1].best);
  CHECK(pivot.lines[1].cells[0].best);
  CHECK(*pivot.lines[0].cells[1].speed == 2);
  CHECK(*pivot.lines[1].cells[1].speed == 0.25);
  CHECK(*pivot.lines[0].cells[0].speed == 1);
  CHECK(pivot.wins == std::vector<int>{1, 1});
  REQUIRE(pivot.means.size() == 1);
  CHECK(*pivot.means[0].cells[1].value == doctest::Approx(std::sqrt(200.0)));
  CHECK(*pivot.means[0].cells[1].speed == doctest::Approx(std::sqrt(0.5)));
  CHECK(to_text(pivot) ==
        "matrix           n            a               b\n"
        "--------------  --  -----------  --------------\n"
        "x               32  10  (1.00x)      5* (2.00x)\n"
        "y               32  10* (1.00x)     40  (0.25x)\n"
        "geometric mean  32  10* (1.00x)  14.14  (0.71x)\n"
        "best of 2            1               1\n");
}

TEST_CASE("of gflops the largest is best, of times the smallest") {
  std::vector<Row> rows{row("x", 32, "a", 10), row("x", 32, "b", 5)};
  for (Row& one : rows) one["gflops"] = one.at("time_us");
  PivotRule rule = times("a");
  CHECK(make_pivot(rows, rule).lines[0].cells[1].best);
  rule.measure = "gflops";
  const Pivot pivot = make_pivot(rows, rule);
  CHECK(pivot.lines[0].cells[0].best);
  CHECK(*pivot.lines[0].cells[1].speed == 0.5);
}

TEST_CASE("means are over the lines that every kernel has, one for each setting") {
  std::vector<Row> rows{row("x", 32, "a", 1), row("x", 32, "b", 2),   row("y", 32, "a", 4),
                        row("y", 32, "b", 8), row("z", 32, "a", 100), row("z", 32, "b", 1),
                        row("x", 64, "a", 3), row("x", 64, "b", 6),   row("y", 64, "a", 3),
                        row("y", 64, "b", 6)};
  rows[5]["status"] = "timeout";
  rows[5].erase("time_us");
  const Pivot pivot = make_pivot(rows, times());

  REQUIRE(pivot.means.size() == 2);
  CHECK(pivot.means[0].keys.at("n") == 32);
  CHECK(pivot.means[0].keys.at("matrix") == "geometric mean of 2");
  CHECK(*pivot.means[0].cells[0].value == doctest::Approx(2));
  CHECK(pivot.means[1].keys.at("matrix") == "geometric mean");
  CHECK(pivot.lines[2].cells[1].status == "timeout");
  CHECK_FALSE(pivot.lines[2].cells[0].best);
}

TEST_CASE("a kernel that is skipped everywhere does not take the means away") {
  std::vector<Row> rows{row("x", 32, "a", 1), row("x", 32, "b", 2), row("y", 32, "a", 4),
                        row("y", 32, "b", 8)};
  for (const std::size_t i : {1, 3}) {
    rows[i]["status"] = "skipped";
    rows[i].erase("time_us");
  }
  const Pivot pivot = make_pivot(rows, times());
  REQUIRE(pivot.means.size() == 1);
  CHECK(*pivot.means[0].cells[0].value == doctest::Approx(2));
  CHECK_FALSE(pivot.means[0].cells[1].value);
}

TEST_CASE("a kernel that is left out of one setting does not take its mean away") {
  const std::vector<Row> rows{row("x", 32, "a", 1), row("x", 32, "b", 2), row("y", 32, "a", 4),
                              row("y", 32, "b", 8), row("x", 64, "a", 3), row("y", 64, "a", 12)};
  const Pivot pivot = make_pivot(rows, times());
  REQUIRE(pivot.means.size() == 2);
  CHECK(*pivot.means[1].cells[0].value == doctest::Approx(6));
  CHECK_FALSE(pivot.means[1].cells[1].value);
}

TEST_CASE("an unknown baseline and two results for one place are refused") {
  const std::vector<Row> rows{row("x", 32, "abc", 1), row("x", 64, "abc", 2)};
  CHECK(error_of([&] { make_pivot(rows, times("abd")); }).find("did you mean 'abc'") !=
        std::string::npos);
  PivotRule rule = times();
  rule.keys = {"matrix"};
  CHECK(error_of([&] { make_pivot(rows, rule); }).find("two results for abc of x") == 0);
}

}  // namespace
}  // namespace tessera
