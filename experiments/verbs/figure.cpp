// tessera figure: records to PDF, PNG and the data behind them.

#include "experiments/tables/report.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

class FigureVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("CONFIG", config_, "config file, or name of a shipped experiment")->required();
    app.add_option("--out", out_, "folder of the records (default: out/<experiment id>)");
    app.add_option("--to", to_, "folder for the figures (default: the folder of the records)");
    app.add_option("--only", only_, "ids of the figures to draw")->delimiter(',');
    app.add_option("--set", sets_, "override a key of the config")->allow_extra_args(false);
  }

  int run() override {
    const Config config = load_config(config_, sets_);
    const std::string records = records_folder(out_, config.id);
    const Report report = read_report(config, records);
    require(!config.figures.empty(), "{}: the config has no [[figure]]", config.path);
    for (const std::string& path : draw_figures(report, to_.empty() ? records : to_, only_))
      fmt::print("{}\n", path);
    return kOk;
  }

 private:
  std::string config_, out_, to_;
  std::vector<std::string> only_, sets_;
};

const Register<Verb> entry{{
    .name = "figure",
    .summary = "draw the figures of an experiment from its records",
    .make = [](const Params&) { return std::make_unique<FigureVerb>(); },
}};

}  // namespace
}  // namespace tessera
