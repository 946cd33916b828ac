// tessera status: how far an experiment is.

#include "experiments/cluster/submission.hpp"
#include "experiments/run/runner.hpp"
#include "experiments/tables/open_config.hpp"
#include "experiments/verbs/cluster_status.hpp"
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
    const std::string folder = records_folder(out_, load_config(request_.name, request_.sets).id);
    const std::optional<Submission> submission = find_submission(folder);
    if (submission) take_up(*submission);
    const Config config = open_config(request_);
    const auto [plan, summary] = plan_status([&] { return make_plan(config, backends_); }, folder);
    std::optional<ClusterStatus> cluster;
    if (submission) cluster = cluster_status(plan, *submission, folder);
    if (json_) {
      Json json{{"experiment", config.id},
                {"points", plan.entries.size()},
                {"left", summary.left},
                {"by_status", summary.by_status},
                {"skips", summary.skips.to_json()}};
      if (cluster) json["cluster"] = to_json(*cluster);
      print_json(json);
      return kOk;
    }
    if (cluster) print(*cluster);
    for (const auto& [status, count] : summary.by_status) fmt::print("{:6} {}\n", count, status);
    fmt::print("{:6} left of {}\n", summary.left, plan.entries.size());
    for (const SkipGroup& group : summary.skips.groups()) fmt::print("{}\n", group.text());
    return kOk;
  }

 private:
  /// What was submitted is what is counted, whatever this machine lacks.
  void take_up(const Submission& submission) {
    request_.as_written = true;
    if (request_.sets.empty()) request_.sets = submission.sets;
    if (backends_.empty()) backends_ = submission.backends;
  }

  ConfigRequest request_;
  std::string out_;
  std::vector<std::string> backends_;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "status",
    .summary =
        "count the points of an experiment that are done, failed and left, also on a cluster",
    .make = [](const Params&) { return std::make_unique<StatusVerb>(); },
}};

}  // namespace
}  // namespace tessera
