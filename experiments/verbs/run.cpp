// tessera run: all points of an experiment.

#include <algorithm>
#include <charconv>
#include <optional>

#include "experiments/backends/missing_backend.hpp"
#include "experiments/cluster/submission.hpp"
#include "experiments/machine/machine.hpp"
#include "experiments/machine/own_process.hpp"
#include "experiments/run/foresight.hpp"
#include "experiments/run/progress.hpp"
#include "experiments/run/runner.hpp"
#include "experiments/tables/open_config.hpp"
#include "experiments/tables/report.hpp"
#include "experiments/verbs/run_options.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

class RunVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("CONFIG", configs_, "config files, or names of shipped experiments")->required();
    app.add_option("--out", options_.out, "folder of the records (default: out/<experiment id>)");
    app.add_option("--backend", backends_,
                   "backends to use in place of the config's (`tessera list backends`)")
        ->delimiter(',');
    app.add_option("--set", sets_, "override a key of the config, as in grid.n=32")
        ->allow_extra_args(false);
    app.add_option(
        "--counters", counters_,
        "source of hardware counters, as --set counters.source=: auto, cupti, ncu, external or "
        "none");
    app.add_flag("--as-written", as_written_,
                 "change nothing for what this machine lacks (a GPU, files of matrices)");
    app.add_flag("--dry-run", dry_run_, "print the points that would run, and run none");
    app.add_option("--shard", shard_, "i/n: run the i-th of n parts (whole matrices)");
    app.add_option("--max-seconds", options_.max_seconds,
                   "stop after this time; the same command continues there");
    declare_run_options(app, options_);
    app.add_option(
           "--gpus", gpus_,
           "a number, or all: measure on that many GPUs; each has a process, of whose threads "
           "one measures and the others read, order, pack and check")
        ->excludes("--jobs");
    app.add_option("--require", required_, "exit with 5 when this backend cannot run here");
    app.add_flag("--fresh-orders", options_.fresh_orders,
                 "compute every order, and take none from the cache");
    app.add_flag("--json", json_, "print the table, the skips and the verdicts as JSON");
    app.example("tessera run quickstart",
                "computes what has no record yet; again after an interruption");
  }

  int run() override {
    if (!counters_.empty()) sets_.push_back("counters.source=" + counters_);
    for (const std::string& backend : required_) {
      const std::string& missing = missing_backend(backend);
      if (missing.empty()) continue;
      fmt::print(stderr, "error: backend {} is required: {}\n", backend, missing);
      return kMissing;
    }
    require(options_.max_seconds >= 0, "--max-seconds takes 0 or more, not {}",
            options_.max_seconds);
    int code = kOk;
    for (const std::string& name : configs_) {
      code = worse(code, run_config(name));
      if (code == kInterrupted) break;
    }
    return code;
  }

 private:
  int run_config(const std::string& name) const {
    std::optional<OwnProcess> count;  // which works meanwhile
    if (!gpus_.empty()) count.emplace(count_gpus);
    const Config config = open_config({name, sets_, as_written_});
    Plan plan = make_plan(config, backends_);
    RunOptions options = options_;
    options.out = records_folder(options_.out, config.id);
    options.experiment = config.id;
    options.config_hash = config.hash;
    options.timeout_s = config.timeout_s;
    options.launch_timeout_s = config.launch_timeout_s;
    if (count) options.gpus = requested_gpus(count->answer());
    if (!shard_.empty()) take_shard(plan, options);
    for (const std::string& note : plan.notes) fmt::print(stderr, "{}: {}\n", config.id, note);
    if (options.jobs > 1 && uses_gpu(plan))
      fmt::print(stderr, "{}: several jobs share the GPU: its times will not be fair\n", config.id);
    if (dry_run_) return tell(config, plan, options);

    const RunSummary summary = run_plan(plan, options);
    print_summary(config, options, summary);
    if (summary.interrupted) {
      print_skips(config, summary);
      return kInterrupted;
    }

    const Report report =
        read_report(open_config({name, sets_, as_written_}, options.out, true), options.out);
    if (json_ || summary.all_skipped())
      write_table(report);
    else
      print_table(report);
    // A shard sees some of the matrices; all of them are judged together.
    const auto results = shard_.empty() ? judge_all(report) : std::vector<ExpectationResult>{};
    for (const ExpectationResult& result : results) fmt::print(stderr, "{}\n", result.text);
    if (json_) print_all(report, plan, summary, results);
    print_skips(config, summary);
    return code_of(config, summary, results);
  }

  static void print_summary(const Config& config, const RunOptions& options,
                            const RunSummary& summary) {
    std::string counts;
    for (const auto& [status, count] : summary.by_status)
      counts += fmt::format(", {} {}", count, status);
    fmt::print(stderr, "{}: {} run now{}{}; records in {}\n", config.id, summary.ran, counts,
               summary.left > 0 ? fmt::format(", {} left", summary.left) : "", options.out);
    if (summary.out_of_time)
      fmt::print(stderr, "{}: stopped after {}; the same command continues with what is left\n",
                 config.id, duration_text(options.max_seconds));
  }

  /// The last lines of a run: what it lacks, and what would mend it.
  static void print_skips(const Config& config, const RunSummary& summary) {
    if (summary.all_skipped())
      fmt::print(stderr, "{}: nothing could be run: every point was skipped\n", config.id);
    for (const SkipGroup& group : summary.skips.groups())
      fmt::print(stderr, "{}: {}\n", config.id, group.text());
  }

  static void print_all(const Report& report, const Plan& plan, const RunSummary& summary,
                        const std::vector<ExpectationResult>& results) {
    Json json = summary.to_json();
    json["experiment"] = report.config.id;
    json["records"] = report.folder;
    json["points"] = plan.entries.size();
    json["table"] = table_json(report);
    json["expectations"] = Json::array();
    for (const ExpectationResult& result : results) json["expectations"].push_back(to_json(result));
    print_json(json);
  }

  void take_shard(Plan& plan, RunOptions& options) const {
    const char* const end = shard_.data() + shard_.size();
    int index = 0, count = 0;
    auto read = std::from_chars(shard_.data(), end, index);
    const bool divided = read.ec == std::errc() && read.ptr != end && *read.ptr == '/';
    if (divided) read = std::from_chars(read.ptr + 1, end, count);
    require(divided && read.ec == std::errc() && read.ptr == end,
            "--shard {}: expected i/n, as in 2/8", shard_);
    plan = shard_of_run(plan, options.out, index, count);
    options.file = fmt::format("records-{}-of-{}.jsonl", index, count);
  }

  /// On a machine without GPUs, `all` is the place of one: what needs none runs likewise.
  int requested_gpus(int count) const {
    if (gpus_ == "all") return std::max(count, 1);
    int gpus = 0;
    const char* const end = gpus_.data() + gpus_.size();
    const auto read = std::from_chars(gpus_.data(), end, gpus);
    require(read.ec == std::errc() && read.ptr == end && gpus > 0 && gpus <= 1024,
            "--gpus {}: expected a number, from 1 on, or all", gpus_);
    require(count == 0 || gpus <= count, "--gpus {}: this machine has {}", gpus_, count);
    return gpus;
  }

  static bool uses_gpu(const Plan& plan) {
    return std::ranges::any_of(
        plan.entries, [](const PlanEntry& e) { return backend_traits(e.point.backend).needs_gpu; });
  }

  static int tell(const Config& config, const Plan& plan, const RunOptions& options) {
    std::map<std::string, int> points;
    for (const PlanEntry& entry : plan.entries) ++points[entry.matrix];
    for (const auto& [matrix, count] : points) fmt::print("{:6} points  {}\n", count, matrix);
    for (const SkipGroup& group : Foresight().skips_of(plan).groups())
      fmt::print("{}\n", group.text("would be skipped here"));
    const RunSummary now = plan_status(plan, options.out);
    fmt::print("{:6} points in all, {} of them without a record in {} ({})\n", plan.entries.size(),
               now.left, options.out, config.id);
    return kOk;
  }

  static int code_of(const Config& config, const RunSummary& summary,
                     const std::vector<ExpectationResult>& results) {
    const auto any = [&](const char* status) { return summary.by_status.contains(status); };
    const int allowed = config.overflow_fails ? 0 : summary.only_overflowed;
    if (any("wrong") && summary.by_status.at("wrong") > allowed) return kWrong;
    if (any("failed") || any("timeout") || any("oom")) return kFailed;
    if (summary.all_skipped()) return kNothingRan;
    const auto some_are = [&](Verdict verdict) {
      return std::ranges::find(results, verdict, &ExpectationResult::verdict) != results.end();
    };
    if (some_are(Verdict::kRefuted)) return kRefuted;
    return some_are(Verdict::kNotJudged) ? kNotJudged : kOk;
  }

  std::vector<std::string> configs_, backends_, sets_, required_;
  std::string shard_, counters_, gpus_;
  RunOptions options_;
  bool as_written_ = false;
  bool dry_run_ = false;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "run",
    .summary = "run all points of an experiment that have no record yet",
    .make = [](const Params&) { return std::make_unique<RunVerb>(); },
}};

}  // namespace
}  // namespace tessera
