// The data of figures: what is in them, and why one cannot be drawn.
#include "experiments/tables/figure_data.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <regex>

#include "experiments/tables/figure_rows.hpp"
#include "formats/base/check.hpp"
#include "tests/planted_records.hpp"

namespace tessera {
namespace {

/// Figure data of the first figure of `rest`.
FigureData figure_of(const std::string& rest) {
  const auto found = planted_experiment(rest);
  return make_figure_data(found.config.figures.at(0), found.rows, found.config, "a machine");
}

const std::string kFigure =
    "[[figure]]\nid = \"f\"\nkind = \"bars\"\nx = \"matrix\"\ny = \"time_us\"\n"
    "series = \"kernel\"\n";

/// "csr_spmm modelled: absent_a 48, absent_b 96"
std::string series_told(const Json& all) {
  std::vector<std::string> lines;
  for (const Json& series : all) {
    std::vector<std::string> points;
    for (const Json& point : series["points"])
      points.push_back(fmt::format("{} {}", point["x"].dump(), point["y"].dump()));
    lines.push_back(fmt::format("{} {}: {}", series["name"].get<std::string>(),
                                series["origin"].get<std::string>(), fmt::join(points, ", ")));
  }
  return fmt::format("{}", fmt::join(lines, "; "));
}

TEST_CASE("a figure's data are its rows, by series, with their origin") {
  const FigureData data = figure_of(kFigure + "title = \"T\"\ny_label = \"us\"\n");

  CHECK(series_told(data.json["series"]) ==
        "csr_spmm modelled: \"absent_a\" 48.0, \"absent_b\" 96.0; "
        "acc_spmm modelled: \"absent_a\" 16.0, \"absent_b\" 32.0");
  CHECK(data.json["schema"] == 1);
  CHECK(data.json["id"] == "f");
  CHECK(data.json["title"] == "T");
  CHECK(data.json["x"] == Json{{"label", "matrix"}, {"scale", "category"}});
  CHECK(data.json["y"] == Json{{"label", "us"}, {"scale", "linear"}});
  CHECK(data.json["provenance"] == "a machine");
  CHECK_FALSE(data.json.contains("panels"));
  CHECK_FALSE(data.json.contains("reference"));
  CHECK(data.csv ==
        "panel,series,origin,matrix,time_us,low,high\n"
        ",csr_spmm,modelled,absent_a,48.0,,\n,csr_spmm,modelled,absent_b,96.0,,\n"
        ",acc_spmm,modelled,absent_a,16.0,,\n,acc_spmm,modelled,absent_b,32.0,,\n");
}

TEST_CASE("a figure has panels, and whiskers where both their ends are known") {
  const FigureData data = figure_of(
      "[[derive]]\nname = \"least\"\nexpr = \"time_us - 1\"\n"
      "[[derive]]\nname = \"most\"\nexpr = \"time_us + 2\"\n" +
      kFigure + "panel = \"matrix\"\nlow = \"least\"\nhigh = \"most\"\n");

  REQUIRE(data.json["panels"].size() == 2);
  CHECK(data.json["panels"][1]["title"] == "matrix = absent_b");
  const Json& point = data.json["panels"][1]["series"][0]["points"][0];
  CHECK(point["low"] == 95.0);
  CHECK(point["high"] == 98.0);
  CHECK(data.csv.find("matrix = absent_b,csr_spmm,modelled,absent_b,96.0,95.0,98.0\n") !=
        std::string::npos);
}

/// What a figure says of itself.
std::string facts_of(const std::string& rest) { return figure_of(rest).json["facts"]; }

TEST_CASE("a figure says how much it shows, under which conditions, and what was selected") {
  CHECK(facts_of(kFigure) == "2 matrices, N = 16, order of the file, device h200.");
  CHECK(facts_of(kFigure + "where = { matrix = \"absent_b\", backend = \"model\" }\n") ==
        "1 matrix, N = 16, order of the file, device h200. Selected: backend = model, matrix = "
        "absent_b.");
  CHECK(facts_of(kFigure + "normalise = \"csr_spmm\"\n") ==
        "2 matrices, N = 16, order of the file, device h200. Relative to csr_spmm at the same "
        "matrix.");
  CHECK(facts_of("[[derive]]\nname = \"least\"\nexpr = \"time_us - 1\"\n" + kFigure +
                 "low = \"least\"\nhigh = \"time_us\"\n") ==
        "2 matrices, N = 16, order of the file, device h200. Whiskers: from least to median time "
        "of a launch or "
        "a packing (\u00b5s).");
}

TEST_CASE("a selection of what the picture shows names only what is absent from it") {
  const std::string shown = "Selected: kernel = those shown";

  CHECK(facts_of(kFigure + "where = { kernel = [\"csr_spmm\", \"acc_spmm\"] }\n")
            .ends_with(shown + "."));
  CHECK(facts_of(kFigure + "where = { kernel = [\"csr_spmm\", \"absent, one\", \"two\"] }\n")
            .ends_with(shown + ", without \"absent, one\" and two."));
}

TEST_CASE("a figure counts the matrices that were selected and did not run") {
  auto found = planted_experiment(kFigure);
  for (Json& record : found.records.points)
    if (record["params"]["matrix"] == "absent_b") record["status"] = "skipped";
  const auto rows = make_rows(found.plan, found.records, found.config);

  const FigureData data = make_figure_data(found.config.figures[0], rows, found.config, "");

  CHECK(data.json["facts"] == "1 matrix (1 more skipped), N = 16, order of the file, device h200.");
  CHECK(data.matrices == 1);
}

TEST_CASE("numbers have an axis of numbers, named and measured as their column is documented") {
  const std::string of_nnz =
      "[[figure]]\nkind = \"scatter\"\nx = \"nnz\"\ny = \"time_us\"\n"
      "series = \"kernel\"\n";
  const auto x_of = [](const std::string& rest) { return figure_of(rest).json["x"]; };

  CHECK(x_of(of_nnz) == Json{{"label", "nonzeros of A"}, {"scale", "linear"}});
  CHECK(x_of("[[derive]]\nname = \"nnz_3\"\nexpr = \"nnz * nnz * nnz\"\n" +
             std::string(of_nnz).replace(of_nnz.find("nnz"), 3, "nnz_3")) ==
        Json{{"label", "nnz 3"}, {"scale", "log"}});
  CHECK(x_of(of_nnz + "x_scale = \"category\"\nx_label = \"size\"\n") ==
        Json{{"label", "size"}, {"scale", "category"}});
  CHECK(figure_of(of_nnz).json["y"]["label"] == "median time of a launch or a packing (\u00b5s)");
  CHECK(figure_of(kFigure + "normalise = \"csr_spmm\"\n").json["y"]["label"] ==
        "median time of a launch or a packing, csr_spmm = 1");
}

const std::string kLines =
    "[[figure]]\nid = \"f\"\nkind = \"lines\"\nx = \"matrix\"\nseries = \"kernel\"\n";

TEST_CASE("a figure of lines has what theory allows beside what was found") {
  const FigureData data = figure_of("[[derive]]\nname = \"allowed\"\nexpr = \"time_us * 2\"\n" +
                                    kLines + "y = \"time_us\"\nbound = \"allowed\"\n");

  CHECK(data.json["series"][0]["points"][1]["bound"] == 192.0);
  CHECK(
      data.csv.starts_with("panel,series,origin,matrix,time_us,low,high,bound\n"
                           ",csr_spmm,modelled,absent_a,48.0,,,96.0\n"));
  CHECK(error_of([] {
          figure_of(kFigure + "bound = \"time_us\"\n");
        }).find("bounds are drawn by lines, not by bars") != std::string::npos);
}

TEST_CASE(
    "infinite values, and on a log axis zeros and negative ones, are missing, with the reason") {
  const FigureData data = figure_of("[[derive]]\nname = \"more\"\nexpr = \"time_us - 48\"\n" +
                                    kLines + "y = \"more\"\ny_scale = \"log\"\n");

  CHECK(series_told(data.json["series"]) ==
        "csr_spmm modelled: \"absent_a\" null, \"absent_b\" 48.0; "
        "acc_spmm modelled: \"absent_a\" null, \"absent_b\" null");
  REQUIRE(data.json["missing"].size() == 3);
  CHECK(data.json["missing"][0] ==
        Json{{"series", "csr_spmm"}, {"x", "absent_a"}, {"reason", "exactly 0"}});
  CHECK(data.json["missing"][1]["reason"] == "below 0");
  const FigureData huge = figure_of("[[derive]]\nname = \"huge\"\nexpr = \"time_us * 1e299\"\n" +
                                    kLines + "y = \"huge\"\n");
  CHECK(huge.json["missing"][0]["reason"] == "infinite");
  CHECK(data.csv.find(",acc_spmm,modelled,absent_a,-32.0,") != std::string::npos);
}

TEST_CASE("a figure has a line to compare with, which needs a label and a place on the axis") {
  const FigureData data = figure_of(kFigure + "reference = 0.5\nreference_label = \"the paper\"\n");

  CHECK(data.json["reference"] == Json{{"y", 0.5}, {"label", "the paper"}});
  const auto error = [](const std::string& rest) {
    return error_of([&] { figure_of(kFigure + "reference = 0\n" + rest); });
  };
  CHECK(error("").find("reference_label") != std::string::npos);
  CHECK(error("reference_label = \"a\"\ny_scale = \"log\"\n")
            .find("reference = 0 is not on a log axis") != std::string::npos);
  CHECK(error("reference_label = \"a\"\nnormalise = \"csr_spmm\"\n")
            .find("a normalised figure has its reference already") != std::string::npos);
}

TEST_CASE("a normalised figure is divided by the series named, x by x") {
  const FigureData data = figure_of(kFigure + "normalise = \"csr_spmm\"\n");

  CHECK(series_told(data.json["series"]) ==
        "csr_spmm modelled: \"absent_a\" 1.0, \"absent_b\" 1.0; "
        "acc_spmm modelled: \"absent_a\" 0.3333333333333333, \"absent_b\" 0.3333333333333333");
  CHECK(data.json["reference"]["label"] == "csr_spmm = 1");
}

TEST_CASE("a figure relative to other rows divides by the row of the same matrix") {
  const FigureData data =
      figure_of(kFigure + "relative_to = { kernel = \"csr_spmm\", backend = \"model\" }\n");

  CHECK(series_told(data.json["series"]) ==
        "csr_spmm modelled: \"absent_a\" 1.0, \"absent_b\" 1.0; "
        "acc_spmm modelled: \"absent_a\" 0.3333333333333333, "
        "\"absent_b\" 0.3333333333333333");
  const auto error = [](const std::string& rest) { return error_of([&] { figure_of(rest); }); };
  CHECK(error(kFigure + "relative_to = { backend = \"model\" }\n") ==
        "c.toml:11:1: relative_to holds for two rows of matrix absent_a, n = 16: narrow it");
  CHECK(error(kFigure + "relative_to = { backend = \"gpu\" }\n") ==
        "c.toml:11:1: figure 'f' has no row that relative_to has a partner for");
  CHECK(error(kFigure + "relative_to = { kernl = \"a\" }\n").find("unknown column '") !=
        std::string::npos);
  CHECK(error(kFigure + "normalise = \"csr_spmm\"\nrelative_to = { n = 16 }\n") ==
        "c.toml:11:1: a figure has 'normalise' or 'relative_to', not both");
}

TEST_CASE("panels of bins are in the order of the bins, and cases in that of the config") {
  const std::string bins =
      "[[derive]]\nname = \"size\"\nof = \"time_us\"\nbins = [20, 60]\n"
      "labels = [\"short\", \"middle\", \"long\"]\n\n";
  const FigureData data = figure_of(bins + kFigure + "panel = \"size\"\n");

  REQUIRE(data.json["panels"].size() == 3);
  CHECK(data.json["panels"][0]["title"] == "size = short");
  CHECK(data.json["panels"][1]["title"] == "size = middle");
  CHECK(data.json["panels"][2]["title"] == "size = long");

  Config config;
  config.cases = {{"first", {}}, {"second", {}}};
  Figure figure;
  figure.series = "case";
  std::vector<Row> rows{{{"case", "best of them"}}, {{"case", "second"}}, {{"case", "first"}}};
  order_by_labels(figure, rows, config);
  CHECK(rows[0].at("case") == "first");
  CHECK(rows[1].at("case") == "second");
  CHECK(rows[2].at("case") == "best of them");
}

TEST_CASE("a series that is a number is told with its column") {
  const FigureData data = figure_of(
      "[[figure]]\nid = \"f\"\nkind = \"bars\"\nx = \"matrix\"\ny = \"time_us\"\n"
      "series = \"n\"\nwhere = { kernel = \"csr_spmm\" }\n");

  CHECK(data.json["series"][0]["name"] == "N = 16");
  CHECK(data.csv.find("\n,16,modelled,absent_a,") != std::string::npos);
}

TEST_CASE("a figure draws a statistic of the rows that share a place, bins in their order") {
  const std::string bins =
      "[[derive]]\nname = \"size\"\nof = \"time_us\"\nbins = [20, 60]\n"
      "labels = [\"short\", \"middle\", \"long\"]\n\n";
  const std::string map =
      "[[figure]]\nkind = \"heatmap\"\nx = \"n\"\ny = \"time_us\"\nseries = \"size\"\n";

  CHECK(series_told(figure_of(bins + map + "statistic = \"max\"\n").json["series"]) ==
        "short modelled: 16 16.0; middle modelled: 16 48.0; long modelled: 16 96.0");
  const std::string by_kernel =
      "[[figure]]\nkind = \"heatmap\"\nx = \"n\"\ny = \"time_us\"\nseries = \"kernel\"\n";
  CHECK(series_told(figure_of(by_kernel + "statistic = \"mean\"\n").json["series"]) ==
        "csr_spmm modelled: 16 72.0; acc_spmm modelled: 16 24.0");
  CHECK(series_told(figure_of(by_kernel + "statistic = \"geomean\"\nrelative_to = "
                                          "{ kernel = \"csr_spmm\" }\n")
                        .json["series"])
            .find("acc_spmm modelled: 16 0.333") != std::string::npos);
  CHECK(error_of([&] { figure_of(by_kernel); }).find("two rows for n = 16") != std::string::npos);
  CHECK(error_of([&] { figure_of(by_kernel + "statistic = \"sum\"\n"); }) != "no error");
}

/// The figure after some records became measurements.
Json normalised_with_measured(const std::function<bool(const Json& params)>& is_measured) {
  auto found = planted_experiment(kFigure + "normalise = \"csr_spmm\"\n");
  for (Json& record : found.records.points) {
    if (record["params"]["backend"] != "emulate" || !is_measured(record["params"])) continue;
    record["origin"] = "measured";
    record["time"] = {{"median_us", 4.0}};
  }
  const auto rows = make_rows(found.plan, found.records, found.config);
  return make_figure_data(found.config.figures[0], rows, found.config, "").json["series"];
}

TEST_CASE(
    "a measurement is divided by a measurement, and by a prediction only where there is none") {
  const auto everything = [](const Json&) { return true; };
  const auto acc_only = [](const Json& params) { return params["kernel"]["name"] == "acc_spmm"; };

  const std::string own = series_told(normalised_with_measured(everything));
  const std::string other = series_told(normalised_with_measured(acc_only));

  CHECK(own.find("acc_spmm measured: \"absent_a\" 1.0, \"absent_b\" 1.0") != std::string::npos);
  CHECK(own.find("acc_spmm modelled: \"absent_a\" 0.3333") != std::string::npos);
  CHECK(other.find("acc_spmm measured: \"absent_a\" 0.08333") != std::string::npos);
}

TEST_CASE("a value has no place in a normalised figure where its unit has none") {
  auto found = planted_experiment(kFigure + "normalise = \"csr_spmm\"\n");
  std::erase_if(found.records.points, [](const Json& record) {
    return record["params"]["kernel"]["name"] == "csr_spmm" &&
           record["params"]["matrix"] == "absent_b";
  });
  const auto rows = make_rows(found.plan, found.records, found.config);

  const Json series =
      make_figure_data(found.config.figures[0], rows, found.config, "").json["series"];

  CHECK(series_told(Json::array({series[1]})) ==
        "acc_spmm modelled: \"absent_a\" 0.3333333333333333, \"absent_b\" null");
}

TEST_CASE("a figure that cannot be drawn says why, with its place") {
  const auto error = [](const std::string& rest) { return error_of([&] { figure_of(rest); }); };
  const auto figure = [](const std::string& x, const std::string& y, const std::string& series) {
    return "[[figure]]\nid = \"f\"\nkind = \"bars\"\nx = \"" + x + "\"\ny = \"" + y +
           "\"\nseries = \"" + series + "\"\n";
  };

  CHECK(error(figure("n", "time_us", "kernel")) ==
        "c.toml:11:1: figure 'f' has two rows for n = 16 in series csr_spmm: narrow its 'where', "
        "or add a panel");
  CHECK(error(figure("n", "time_us", "kernel") + "panel = \"matrix\"\n") == "no error");
  CHECK(error(figure("n", "time_us", "kernel") + "where = { matrix = \"absent_b\" }\n") ==
        "no error");
  for (const auto& text :
       {figure("matrx", "time_us", "kernel"), figure("matrix", "tme_us", "kernel"),
        figure("matrix", "time_us", "kernl"), kFigure + "panel = \"devce\"\n",
        kFigure + "low = \"p5\"\n", kFigure + "where = { kernl = \"a\" }\n"}) {
    CAPTURE(text);
    CHECK(error(text).find("unknown column '") != std::string::npos);
  }
  for (const auto& text :
       {kFigure + "where = { matrix = \"cora\" }\n", figure("p5_us", "time_us", "kernel"),
        figure("matrix", "kernel", "n"), figure("matrix", "p95_us", "kernel")}) {
    CAPTURE(text);
    CHECK(error(text) == "c.toml:11:1: figure 'f' has no rows: nothing it asks for has run ok");
  }
  CHECK(error(kFigure + "normalise = \"cusparse\"\n") ==
        "c.toml:11:1: figure 'f' is normalised to 'cusparse', which has no values");
}

TEST_CASE("what is counted or timed on the host is not called a prediction") {
  const Row row{{"origin", "modelled"}};

  for (const char* column : {"nnz", "rows", "mean_nnz_tc", "footprint_bytes", "tiles", "mma"})
    CHECK(value_origin(row, column, {}) == "counted");
  for (const char* column : {"load_s", "reorder_s", "pack_s"})
    CHECK(value_origin(row, column, {}) == "measured");
  for (const char* column : {"time_us", "gflops", "smape_pct", "emulate_s", "some_derived_column"})
    CHECK(value_origin(row, column, {}) == "modelled");
}

TEST_CASE("provenance names the machine, the day and the commit of every run that has records") {
  RecordSet set;
  set.environments["e1"] = {{"gpu", {{"available", true}, {"name", "NVIDIA H200"}}},
                            {"host", {{"cpu", "EPYC"}}},
                            {"started_at", "2026-11-21T09:30:00Z"},
                            {"build", {{"commit", "abc"}, {"dirty", true}}}};
  set.environments["e2"] = {{"gpu", {{"available", false}}},
                            {"host", {{"cpu", "EPYC"}}},
                            {"started_at", "2026-11-22T09:30:00Z"},
                            {"build", {{"commit", "abd"}, {"dirty", false}}}};
  set.environments["e3"] = {{"started_at", "2026-11-23T09:30:00Z"}};
  set.points = {{{"env_id", "e1"}}, {{"env_id", "e2"}}, {{"env_id", "e1"}}};

  CHECK(provenance_text(set) ==
        "EPYC, 2026-11-22, commit abd; NVIDIA H200, 2026-11-21, commit abc+changes");
  CHECK(provenance_text({}) == "");
}

}  // namespace
}  // namespace tessera
