// tessera status: how far an experiment is.

#include "experiments/run/runner.hpp"
#include "experiments/tables/open_config.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

#include <filesystem>

namespace tessera {
namespace {

class StatusVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("CONFIG", request_.name, "config file, or name of a shipped experiment")
        ->required();
    app.add_option("--out", out_, "folder of the records (default: out/<experiment id>)");
    app.add_option("--backend", backends_, "backends to use in place of the config's")
        ->delimiter(',');
    app.add_option("--set", request_.sets, "override a key of the config")->allow_extra_args(false);
    app.add_flag("--as-written", request_.as_written,
                 "change nothing for what this machine lacks (a GPU, files of matrices)");
    app.add_flag("--json", json_, "print JSON");
    app.example("tessera status quickstart", "how many points are done, failed and left");
  }

  int run() override {
    const Config config = open_config(request_);
    const Plan plan = make_plan(config, backends_);
    const RunSummary summary = plan_status(plan, records_folder(out_, config.id));
    if (json_) {
      print_json({{"experiment", config.id},
                  {"points", plan.entries.size()},
                  {"left", summary.left},
                  {"by_status", summary.by_status},
                  {"skips", summary.skips.to_json()}});
      return kOk;
    }
    for (const auto& [status, count] : summary.by_status) fmt::print("{:6} {}\n", count, status);
    fmt::print("{:6} left of {}\n", summary.left, plan.entries.size());
    for (const SkipGroup& group : summary.skips.groups()) fmt::print("{}\n", group.text());
    return kOk;
  }

 private:
  ConfigRequest request_;
  std::string out_;
  std::vector<std::string> backends_;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "status",
    .summary = "count the points of an experiment that are done, failed and left",
    .make = [](const Params&) { return std::make_unique<StatusVerb>(); },
}};

}  // namespace
}  // namespace tessera
