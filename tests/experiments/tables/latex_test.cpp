// Results as LaTeX: what is escaped, bold and italic, and the names and values of macros.
#include "experiments/tables/latex.hpp"

#include <doctest/doctest.h>

#include "tests/planted_records.hpp"

namespace tessera {
namespace {

Report report_of(const std::string& rest) {
  auto found = planted_experiment(rest);
  return {found.config, "", found.records, found.rows};
}

const std::string kTable =
    "[table]\ncolumns = [\"matrix\", \"kernel\", \"time_us\", \"gflops\"]\n"
    "where = { backend = \"model\" }\n";

TEST_CASE("a LaTeX table has names and units in its head and the best of each matrix in bold") {
  const std::string table = latex_table(report_of(kTable));

  CHECK(table.find("\\begin{tabular}{llrl}\n\\toprule\nmatrix & kernel & time & gflops \\\\\n"
                   " &  & (\\textmu s) & (GFLOP/s) \\\\\n\\midrule\n") != std::string::npos);
  CHECK(table.find("absent\\_a & csr\\_spmm & 48 &  \\\\\n") != std::string::npos);
  CHECK(table.find("absent\\_a & acc\\_spmm & \\textbf{16} &  \\\\\n\\addlinespace\n") !=
        std::string::npos);
  CHECK(table.find("absent\\_b & acc\\_spmm & \\textbf{32} &  \\\\\n\\bottomrule\n") !=
        std::string::npos);
  CHECK(table.find("\\footnotesize All values modelled. ") != std::string::npos);
  CHECK(table.find("\\textit") == std::string::npos);
}

TEST_CASE("a LaTeX table has room between groups of rivals, and only there") {
  const std::string table =
      latex_table(report_of(kTable.substr(0, kTable.find("where")) +
                            "where = { backend = \"model\", kernel = \"acc_spmm\" }\n"));

  CHECK(table.find("addlinespace") == std::string::npos);
  CHECK(table.find("textbf") == std::string::npos);
}

TEST_CASE("a config says of its own columns which value is the best") {
  const std::string derive = "[[derive]]\nname = \"speed\"\nexpr = \"1000 / time_us\"\n";
  const std::string columns =
      "[table]\ncolumns = [\"matrix\", \"kernel\", \"speed\"]\n"
      "where = { backend = \"model\", matrix = \"absent_a\" }\n";

  CHECK(latex_table(report_of(derive + columns)).find("\\textbf") == std::string::npos);
  CHECK(latex_table(report_of(derive + columns + "best = { speed = \"max\" }\n"))
            .find("acc\\_spmm & \\textbf{62.5}") != std::string::npos);
  CHECK(latex_table(report_of(derive + columns + "best = { speed = \"min\" }\n"))
            .find("csr\\_spmm & \\textbf{20.83}") != std::string::npos);
  CHECK(error_of([&] {
          report_of(kTable + "best = { speed = \"most\" }\n");
        }).find("the best of a column is its \"min\" or its \"max\"") != std::string::npos);
}

TEST_CASE("predictions are in italics beside measurements") {
  auto found = planted_experiment(kTable);
  for (Json& record : found.records.points)
    if (record["params"].value("backend", "") == "model" &&
        record["params"]["kernel"]["name"] == "csr_spmm")
      record["origin"] = "measured";
  const std::string table = latex_table(
      {found.config, "", found.records, make_rows(found.plan, found.records, found.config)});

  CHECK(table.find("csr\\_spmm & 48 &") != std::string::npos);
  CHECK(table.find("acc\\_spmm & \\textit{\\textbf{16}} &") != std::string::npos);
  CHECK(table.find("Italic: modelled; the others are not predicted. ") != std::string::npos);
}

TEST_CASE("text and numbers are written as LaTeX reads them") {
  CHECK(latex_text("a_b & 5 % of $x{1} #2 ~ ^ \\ <") ==
        "a\\_b \\& 5 \\% of \\$x\\{1\\} \\#2 \\textasciitilde{} \\textasciicircum{} "
        "\\textbackslash{} $<$");
  CHECK(latex_number(1.41421) == "1.414");
  CHECK(latex_number(123456.7) == "123457");
  CHECK(latex_number(1.2e-7) == "$1.2\\times10^{-7}$");
}

TEST_CASE("what a record says is text in LaTeX, and no command") {
  auto found = planted_experiment(kTable);
  for (Json& record : found.records.points) {
    record["origin"] = "modelled$\\input{a}";
    record["env_id"] = "e";
  }
  found.records.environments["e"] = {{"env_id", "e"},
                                     {"started_at", "\\input{b}"},
                                     {"host", {{"cpu", "\\input{c}"}}},
                                     {"build", {{"commit", "\\input{d}"}}}};
  const Report report{found.config, "", found.records,
                      make_rows(found.plan, found.records, found.config)};

  for (const std::string& text : {latex_table(report), latex_macros(report, {}, {})}) {
    CAPTURE(text);
    CHECK(text.find("\\textbackslash{}input\\{c\\}") != std::string::npos);
    CHECK(text.find("\\input") == std::string::npos);
  }
  CHECK(latex_table(report).find("modelled\\$\\textbackslash{}input\\{a\\}") != std::string::npos);
}

TEST_CASE("macros hold the captions, counts and means of figures, and the expectations") {
  const Report report = report_of(
      "[[figure]]\nid = \"fig9\"\nkind = \"bars\"\nx = \"matrix\"\ny = \"time_us\"\n"
      "series = \"kernel\"\nnormalise = \"csr_spmm\"\n"
      "[[expect]]\nname = \"acc over csr\"\nsource = \"Table 1\"\ncolumn = \"time_us\"\n"
      "where = { kernel = \"acc_spmm\", backend = \"model\" }\n"
      "relative_to = { kernel = \"csr_spmm\", backend = \"model\" }\nvalue = 0.3\ntolerance = "
      "0.2\n");
  const Figure& figure = report.config.figures[0];
  const std::string macros = latex_macros(
      report,
      {{&figure, make_figure_data(figure, report.rows, report.config, ""), "50 % faster", {}}},
      {judge(report.config.expects[0], report.rows, report.config)});

  for (const char* line :
       {"\\newcommand{\\CFigNineCaption}{50 \\% faster}", "\\newcommand{\\CFigNineMatrices}{2}",
        "\\newcommand{\\CFigNineAccSpmmModelledGeomean}{0.3333}",
        "\\newcommand{\\CFigNineAccSpmmModelledValues}{2}",
        "\\newcommand{\\CFigNineAccSpmmModelledAbove}{0}", "\\newcommand{\\CAccOverCsr}{0.3333}",
        "\\newcommand{\\CAccOverCsrExpected}{0.3}", "\\newcommand{\\CAccOverCsrValues}{2}",
        "\\newcommand{\\CAccOverCsrVerdict}{met}"}) {
    CAPTURE(line);
    CHECK(macros.find(std::string(line) + "\n") != std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
