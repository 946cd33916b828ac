// tessera figure: records to pictures and the data behind them, for the screen and for papers.

#include <future>

#include "experiments/tables/draw_figures.hpp"
#include "experiments/tables/latex.hpp"
#include "experiments/tables/open_config.hpp"
#include "experiments/tables/table.hpp"
#include "experiments/tables/write_file.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

class FigureVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("CONFIG", request_.name, "config file, or name of a shipped experiment")
        ->required();
    app.add_option("--out", out_, "folder of the records (default: out/<experiment id>)");
    app.add_option("--to", to_, "folder for the figures (default: the folder of the records)");
    app.add_option("--only", options_.only, "ids of the figures to draw")->delimiter(',');
    app.add_option("--style", options_.style,
                   "where the figures stand: screen (title and caption inside), acm, ieee (widths "
                   "and fonts of their papers, no title, no caption) or slides")
        ->check(CLI::IsMember(kFigureStyles));
    app.add_option("--columns", options_.columns,
                   "columns of a paper that a figure takes: 1 or 2 (default: as it needs)")
        ->check(CLI::Range<int>(1, 2));
    app.add_option("--format", options_.formats,
                   "pdf, png, svg, pgf (needs LaTeX); default pdf,png")
        ->delimiter(',')
        ->check(CLI::IsMember(kFigureFormats));
    app.add_option("--macros", macros_,
                   "file for the numbers of a text as LaTeX macros: captions, counts, geometric "
                   "means, expectations, machine, date, commit");
    app.add_flag("--latex", latex_, "write the [table] as table.tex too (booktabs)");
    app.add_option("--set", request_.sets, "override a key of the config")->allow_extra_args(false);
    app.add_flag("--as-written", request_.as_written,
                 "draw the config as it is written, whatever the records hold");
    app.example("tessera figure quickstart", "after tessera run quickstart");
  }

  int run() override {
    const std::string id = load_config(request_.name, request_.sets).id;
    const std::string records = records_folder(out_, id);
    Report report = read(records);
    const Config& config = report.config;
    const std::string folder = to_.empty() ? records : to_;
    require(!config.figures.empty() || latex_, "{}: the config has no [[figure]]", config.path);
    std::vector<DrawnFigure> figures = make_figures(report, options_.only);
    // A million rows take as long to free as a script to start.
    std::future<void> freed;
    if (!latex_ && macros_.empty())
      freed = std::async(std::launch::async, [&] { std::vector<Row>().swap(report.rows); });
    draw_figures(config, figures, folder, options_);
    for (const DrawnFigure& figure : figures)
      for (const std::string& path : figure.paths) fmt::print("{}\n", path);
    if (latex_) {
      write_file(folder + "/table.tex", latex_table(report));
      fmt::print("{}/table.tex\n", folder);
    }
    if (!macros_.empty()) {
      write_file(macros_, latex_macros(report, figures, judge_all(report)));
      fmt::print("{}\n", macros_);
    }
    return kOk;
  }

 private:
  /// Of figures alone, what they are drawn from: tables and macros are made from all of it.
  Report read(const std::string& records) const {
    if (!latex_ && macros_.empty()) return read_figure_report(request_, records, options_.only);
    return read_report(open_config(request_, records), records);
  }

  ConfigRequest request_;
  std::string out_, to_, macros_;
  DrawOptions options_;
  bool latex_ = false;
};

const Register<Verb> entry{{
    .name = "figure",
    .summary = "draw the figures of an experiment from its records",
    .make = [](const Params&) { return std::make_unique<FigureVerb>(); },
}};

}  // namespace
}  // namespace tessera
