// tessera submit: an experiment as a job array of a cluster's scheduler.

#include <algorithm>

#include "experiments/cluster/submit.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

class SubmitVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("CONFIG", request_.config, "config file, or name of a shipped experiment")
        ->required();
    app.add_option("--on", request_.scheduler, "scheduler of the cluster")
        ->required()
        ->check(CLI::IsMember(Registry<Scheduler>::instance().names()));
    app.add_option("--shards", request_.count,
                   "number of parts (whole matrices); later calls keep that of the first")
        ->check(CLI::Range(1, 1'000'000));
    app.add_option("--site", request_.site,
                   "partition, account, limits and container of the cluster: a TOML file (keys: "
                   "`tessera list keys`)")
        ->takes("FILE");
    app.add_option("--out", request_.out,
                   "folder of the records, which all nodes see (default: out/<experiment id>)");
    app.add_option("--backend", request_.backends, "backends to use in place of the config's")
        ->delimiter(',');
    app.add_option("--set", request_.sets, "override a key of the config")->allow_extra_args(false);
    app.add_option("--rerun", request_.rerun, "also run points again that have a record")
        ->delimiter(',')
        ->check(CLI::IsMember({"failed", "wrong"}));
    app.add_option("--times", request_.times,
                   "records from which the times of points are predicted, to balance the shards "
                   "(default: those in --out)")
        ->takes("RECORDS");
    app.add_flag("--dry-run", request_.dry_run, "print the scripts, and submit nothing");
    app.add_flag("--json", json_, "print JSON");
    app.example("tessera submit baselines --on slurm --shards 8 --site site.toml",
                "eight jobs and one that merges; again later, what failed or was preempted");
  }

  int run() override {
    const std::string missing = Registry<Scheduler>::instance().make(request_.scheduler)->missing();
    if (!missing.empty() && !request_.dry_run) {
      fmt::print(stderr, "error: {}\n", missing);
      return kMissing;
    }
    const SubmitResult result = submit_experiment(request_);
    if (!result.share.empty()) tell_division(result);
    tell_gpus(result);
    if (json_)
      print_all(result);
    else
      tell(result);
    return kOk;
  }

 private:
  static std::int64_t left_of(const SubmitResult& result, const std::vector<int>& shards) {
    std::int64_t left = 0;
    for (const int shard : shards) left += result.shards[static_cast<std::size_t>(shard) - 1].left;
    return left;
  }

  static void tell_division(const SubmitResult& result) {
    fmt::print(stderr, "{}: {} in {}, balanced by {}; the largest has {:.0f} % of the work\n",
               result.experiment,
               counted(std::ssize(result.submission.shard_of), "matrix", "matrices"),
               counted(result.submission.count, "shard"), result.submission.balanced_by,
               100 * std::ranges::max(result.share));
  }

  void tell_gpus(const SubmitResult& result) const {
    const bool asks = std::ranges::any_of(result.scripts, [](const Script& script) {
      return script.text.find("gres=") != std::string::npos ||
             script.text.find("--gpus") != std::string::npos ||
             script.text.find("gpus/nvidia") != std::string::npos;
    });
    const bool needs = std::ranges::any_of(result.scripts, [](const Script& script) {
      return script.text.find(" --require ") != std::string::npos;
    });
    if (needs && !asks)
      fmt::print(stderr, "{}: its points need a GPU, and the site file asks for none\n",
                 result.experiment);
  }

  static void tell(const SubmitResult& result) {
    if (result.scripts.empty()) {
      const bool alive = std::ranges::any_of(result.shards, &ShardState::is_alive);
      fmt::print("nothing to submit: {}\n",
                 alive ? "every shard that has points left is queued or running"
                       : "every point has a record");
      return;
    }
    if (!result.job) {
      for (const Script& script : result.scripts)
        fmt::print("==> {}\n{}\n", script.path, script.text);
      for (const std::string& command : result.commands) fmt::print("==> {}\n", command);
      return;
    }
    const SubmittedJob& job = *result.job;
    fmt::print("job {}: {} of {}, {} left\n", job.job, counted(std::ssize(job.shards), "shard"),
               result.submission.count, counted(left_of(result, job.shards), "point"));
    if (!job.merge.empty())
      fmt::print("job {}: merges into {}/merged afterwards\n", job.merge, result.records);
  }

  static void print_all(const SubmitResult& result) {
    Json json{{"experiment", result.experiment},   {"records", result.records},
              {"shards", result.submission.count}, {"balanced_by", result.submission.balanced_by},
              {"submitted", Json::array()},        {"left", 0}};
    for (const Script& script : result.scripts) json["scripts"][script.path] = script.text;
    if (result.job) {
      json["job"] = result.job->job;
      json["merge"] = result.job->merge;
      json["submitted"] = result.job->shards;
      json["left"] = left_of(result, result.job->shards);
    }
    print_json(json);
  }

  SubmitRequest request_;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "submit",
    .summary = "run an experiment on a cluster: a job array, and a job that merges",
    .make = [](const Params&) { return std::make_unique<SubmitVerb>(); },
}};

}  // namespace
}  // namespace tessera
