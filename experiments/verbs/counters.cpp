// tessera counters: lists the hardware metrics of a chip; CUPTI knows them without a GPU.

#include "experiments/counters/counter_source.hpp"
#include "experiments/counters/metric_catalog.hpp"
#include "experiments/machine/terminal.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

class CountersVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.require_subcommand(1);
    CLI::App* check = app.add_subcommand("check", "whether a chip has these metrics");
    check->add_option("METRIC", metrics_, "as in lts__t_sectors.sum (default: the usual set)");
    check->callback([this] { check_ = true; });
    CLI::App* list = app.add_subcommand("list", "the metrics of a chip, without their endings");
    list->add_option("--match", match_, "only those with this in their name");
    list->add_flag("--endings", endings_, "with what may follow each name");
    check->example("tessera counters check lts__t_sectors.sum --chip GA100", "has an A100 that?");
    list->example("tessera counters list --match dram__bytes", "what is counted of device memory");
    for (CLI::App* sub : {check, list}) {
      sub->add_option("--chip", chip_, "GA100 (A100), AD102 (L40) or GH100 (H100, H200)");
      sub->add_flag("--json", json_, "as JSON");
    }
  }

  int run() override {
    try {
      const auto chip = find_metric_catalog()->open(chip_);
      return check_ ? check(*chip) : list(*chip);
    } catch (const Unsupported& missing) {
      say_error("metrics cannot be looked up: {}", missing.what());
      return kMissing;
    }
  }

 private:
  int check(const ChipMetrics& chip) const {
    const std::vector<std::string>& metrics = metrics_.empty() ? default_metrics() : metrics_;
    Json all{{"chip", chip_}, {"metrics", Json::array()}};
    std::vector<std::string> present;
    for (const std::string& metric : metrics) {
      const std::string fault = metric_fault(chip_, chip, metric);
      if (fault.empty()) present.push_back(metric);
      all["metrics"].push_back({{"name", metric}, {"exists", fault.empty()}, {"fault", fault}});
    }
    const bool complete = present.size() == metrics.size();
    if (complete) all["passes"] = chip.passes(present);
    if (json_)
      print_json(all);
    else
      tell(all);
    return complete ? kOk : kUsage;
  }

  static void tell(const Json& all) {
    for (const Json& metric : all["metrics"]) {
      if (metric["exists"].get<bool>())
        fmt::print("{}\n", metric["name"].get<std::string>());
      else
        say_error(metric["fault"].get<std::string>());
    }
    if (all.contains("passes"))
      fmt::print("{} of {} in {}\n", counted(std::ssize(all["metrics"]), "metric"),
                 all["chip"].get<std::string>(),
                 counted(all["passes"].get<std::int64_t>(), "pass", "passes"));
  }

  int list(const ChipMetrics& chip) const {
    Json all = Json::array();
    for (const std::string& name : chip.names()) {
      if (name.find(match_) == std::string::npos) continue;
      const Metric metric = chip.describe(name);
      all.push_back({{"name", name}, {"unit", metric.unit}, {"meaning", metric.meaning}});
      if (endings_) all.back()["endings"] = chip.endings(name);
    }
    if (json_) {
      print_json(all);
      return kOk;
    }
    for (const Json& metric : all) {
      fmt::print("{:64} {:16} {}\n", metric["name"].get<std::string>(),
                 metric["unit"].get<std::string>(), metric["meaning"].get<std::string>());
      if (!endings_) continue;
      for (const Json& ending : metric["endings"])
        fmt::print("{}{}\n", metric["name"].get<std::string>(), ending.get<std::string>());
    }
    return kOk;
  }

  std::string chip_ = "GH100", match_;
  std::vector<std::string> metrics_;
  bool check_ = false, endings_ = false, json_ = false;
};

const Register<Verb> entry{{
    .name = "counters",
    .summary = "list the hardware metrics of a chip; needs no GPU",
    .make = [](const Params&) { return std::make_unique<CountersVerb>(); },
}};

}  // namespace
}  // namespace tessera
