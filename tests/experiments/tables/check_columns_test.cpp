// Columns are checked before any point runs.
#include "experiments/tables/check_columns.hpp"

#include <doctest/doctest.h>

#include "tests/planted_records.hpp"

namespace tessera {
namespace {

/// What is wrong with a config that has these lines, from line 6 on.
std::string fault(const std::string& rest) {
  const TemporaryFolder folder;
  write_text(folder / "c.toml",
             "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"model\"]\n\n" + rest);
  return error_of([&] { check_columns(load_config(folder / "c.toml")); });
}

const std::string kFigure = "[[figure]]\nkind = \"bars\"\nseries = \"kernel\"\n";
const std::string kExpect = "[[expect]]\nname = \"a\"\nsource = \"b\"\nvalue = 1\n";

TEST_CASE("an unknown column is an error with its place and the nearest name, wherever it stands") {
  const auto names_gflops = [](const std::string& text, const char* place) {
    return text.starts_with(std::string(place) + ": unknown column 'gflop', did you mean 'gflops'");
  };

  CHECK(names_gflops(fault("[table]\ncolumns = [\"gflop\"]\n"), "c.toml:6:1"));
  CHECK(names_gflops(fault("[table]\ncolumns = [\"n\"]\nwhere = { gflop = 1 }\n"), "c.toml:8:19"));
  CHECK(names_gflops(fault(kFigure + "x = \"n\"\ny = \"gflop\"\n"), "c.toml:6:1"));
  CHECK(names_gflops(fault(kFigure + "x = \"gflop\"\ny = \"n\"\n"), "c.toml:6:1"));
  CHECK(names_gflops(fault(kFigure + "x = \"n\"\ny = \"n\"\nwhere = { gflop = 1 }\n"),
                     "c.toml:11:19"));
  CHECK(names_gflops(fault(kExpect + "column = \"gflop\"\n"), "c.toml:6:1"));
  CHECK(names_gflops(fault(kExpect + "column = \"n\"\nwhere = { gflop = 1 }\n"), "c.toml:11:19"));
  CHECK(names_gflops(fault(kExpect + "column = \"n\"\nrelative_to = { gflop = 1 }\n"),
                     "c.toml:11:25"));
  CHECK(names_gflops(
      fault(kExpect + "column = \"n\"\nstatistic = \"rank_correlation\"\nwith = \"gflop\"\n"),
      "c.toml:6:1"));
  CHECK(names_gflops(fault("[[derive]]\nname = \"d\"\nexpr = \"gflop / 2\"\n"), "c.toml:6:1"));
  CHECK(names_gflops(fault("[[derive]]\nname = \"d\"\nof = \"gflop\"\nbins = [1]\n"
                           "labels = [\"a\", \"b\"]\n"),
                     "c.toml:6:1"));
  CHECK(names_gflops(fault("[[unfold]]\nname = \"u\"\nof = \"gflop\"\n"), "c.toml:6:1"));
  CHECK(names_gflops(fault("[[reduce]]\nname = \"r\"\nby = \"gflop\"\n"), "c.toml:6:1"));
  CHECK(names_gflops(fault("[[reduce]]\nname = \"r\"\nkeep = [\"gflop\"]\n"), "c.toml:6:1"));
  CHECK(names_gflops(fault("[[join]]\nname = \"j\"\nfrom = { n = 1 }\ncolumns = [\"gflop\"]\n"),
                     "c.toml:6:1"));
}

TEST_CASE("columns that a config makes, labels, parameters and stages are known") {
  CHECK(fault("[[join]]\nname = \"j\"\nfrom = { backend = \"model\" }\ncolumns = [\"gflops\"]\n"
              "[[derive]]\nname = \"d\"\nexpr = \"j_gflops / 2\"\n"
              "[[unfold]]\nname = \"bin\"\nof = \"tiles_per_block_row_histogram_16x16\"\n"
              "[[reduce]]\nname = \"best\"\ncolumn = \"case\"\nby = \"d\"\n"
              "[table]\ncolumns = [\"j_origin\", \"d\", \"bin\", \"chosen\", \"step\", "
              "\"kernel.precision\", \"stage_sorting_us\", \"values.b\"]\n") == "no error");
}

TEST_CASE("an expression that is none is an error with its place") {
  CHECK(fault("[[derive]]\nname = \"d\"\nexpr = \"n +\"\n").starts_with("c.toml:6:1: 'n +': "));
}

TEST_CASE("an expression that assigns is refused, one that compares is not") {
  const auto expression = [](const std::string& expr) {
    return fault("[[derive]]\nname = \"d\"\nexpr = \"" + expr + "\"\n");
  };
  for (const char* expr : {"n == 3 ? 1 : 2", "n >= 3", "n<=3", "n != 3 && n==4"})
    CHECK(expression(expr) == "no error");
  for (const char* expr : {"n = 3", "n=3", "n == 3 ? (n = 4) : 2", "="})
    CHECK(expression(expr).starts_with(fmt::format("c.toml:6:1: '{}': ", expr)));
}

TEST_CASE("the kind of a figure is one of the scripts that draw") {
  const auto kind = [](const std::string& name) {
    return fault("[[figure]]\nkind = \"" + name +
                 "\"\nx = \"n\"\ny = \"n\"\nseries = \"kernel\"\n");
  };

  CHECK(kind("bars") == "no error");
  CHECK(kind("bar").starts_with("c.toml:7:8: unknown value for kind 'bar', did you mean 'bars'"));
  CHECK(kind("../../etc/x").starts_with("c.toml:7:8: unknown value for kind"));
  CHECK(kind("figure").starts_with("c.toml:7:8: unknown value for kind"));  // it draws nothing
}

}  // namespace
}  // namespace tessera
