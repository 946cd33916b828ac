// tessera plan: the resolved points of an experiment, for people and for schedulers.

#include "experiments/config/plan.hpp"

#include "experiments/run/foresight.hpp"
#include "experiments/tables/open_config.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

class PlanVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("CONFIG", request_.name, "config file, or name of a shipped experiment")
        ->required();
    app.add_option("--backend", backends_, "backends to use in place of the config's")
        ->delimiter(',');
    app.add_option("--set", request_.sets, "override a key of the config")->allow_extra_args(false);
    app.add_flag("--as-written", request_.as_written,
                 "change nothing for what this machine lacks (a GPU, files of matrices)");
    app.add_flag(
        "--json", json_,
        "print one JSON object per line: hash, labels, point, cost, and skip where it is foreseen");
    app.example("tessera plan quickstart", "the points that tessera run would compute");
  }

  int run() override {
    const Config config = open_config(request_);
    const Plan plan = make_plan(config, backends_);
    Foresight foresight;
    for (const PlanEntry& entry : plan.entries) {
      if (json_)
        fmt::print("{}\n", entry_json(entry, foresight).dump());
      else
        fmt::print("{}  {:8} {:28} {}{}\n", entry.hash, entry.point.backend, task_text(entry.point),
                   entry.matrix, labels_text(entry));
    }
    for (const std::string& note : plan.notes) fmt::print(stderr, "{}: {}\n", config.id, note);
    fmt::print(stderr, "{}: {} points\n", config.id, plan.entries.size());
    for (const SkipGroup& group : foresight.skips_of(plan).groups())
      fmt::print(stderr, "{}: {}\n", config.id, group.text("would be skipped here"));
    return kOk;
  }

 private:
  static Json entry_json(const PlanEntry& entry, Foresight& foresight) {
    Json json{{"hash", entry.hash},
              {"labels", entry.labels},
              {"point", to_json(entry.point)},
              {"cost", entry.cost}};
    if (const auto skip = foresight.skip_of(entry.point)) {
      json["skip"] = to_json(skip->cause);
      json["skip"]["reason"] = skip->reason;
    }
    return json;
  }

  static std::string labels_text(const PlanEntry& entry) {
    std::string text;
    for (const auto& [label, value] : entry.labels) text += fmt::format("  {}={}", label, value);
    return text;
  }

  ConfigRequest request_;
  std::vector<std::string> backends_;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "plan",
    .summary = "print the resolved points of an experiment",
    .make = [](const Params&) { return std::make_unique<PlanVerb>(); },
}};

}  // namespace
}  // namespace tessera
