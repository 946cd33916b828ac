// tessera doctor: what this machine has, and what each missing piece disables.

#include <cstdlib>
#include <filesystem>

#include "experiments/backends/backend.hpp"
#include "experiments/counters/counter_source.hpp"
#include "experiments/counters/metric_catalog.hpp"
#include "experiments/machine/machine.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/shipped_files.hpp"

namespace tessera {
namespace {

bool succeeds(const std::string& command) {
  return std::system(("{ " + command + "; } >/dev/null 2>&1").c_str()) == 0;
}

/// A program or Python module, and what is lost without it.
struct Tool {
  const char* name;
  const char* test;
  const char* disables;
};

constexpr Tool kTools[] = {
    {"python3", "python3 --version", "figures, notebooks"},
    {"matplotlib", "python3 -c 'import matplotlib' || /usr/bin/python3 -c 'import matplotlib'",
     "tessera figure"},
    {"pandas", "python3 -c 'import pandas' || /usr/bin/python3 -c 'import pandas'",
     "the story notebook"},
    {"nbformat", "python3 -c 'import nbformat' || /usr/bin/python3 -c 'import nbformat'",
     "turning scripts into .ipynb"},
    {"nvcc", "command -v nvcc || test -x /usr/local/cuda/bin/nvcc", "building the CUDA half here"},
    {"compute-sanitizer", "command -v compute-sanitizer", "checking kernels for memory errors"},
};

/// The state of each counter source on this machine.
Json counter_sources_here() {
  Json all = Json::object();
  for (const std::string& name : counter_sources()) {
    if (name == "none") continue;
    const CounterChoice choice = find_counter_source(name);
    all[name] = choice.missing.empty() ? "works" : choice.missing;
    if (name == "auto" && choice.missing.empty()) all[name] = "takes " + choice.name;
  }
  return all;
}

/// Which chips' metrics `tessera counters` can look up.
std::string metric_names() {
  try {
    return fmt::format("of {} chips, by CUPTI", find_metric_catalog()->chips().size());
  } catch (const Unsupported& missing) {
    return missing.what();
  }
}

/// True when users other than root may read hardware counters; null where the driver does not say.
std::string counter_permission() {
  return succeeds("grep -q 'RmProfilingAdminOnly: 0' /proc/driver/nvidia/params")
             ? "everybody"
             : (std::filesystem::exists("/proc/driver/nvidia/params") ? "root only" : "no driver");
}

class DoctorVerb final : public Verb {
 public:
  void declare(CLI::App& app) override { app.add_flag("--json", json_, "print JSON"); }

  int run() override {
    Json all{{"build", build_description()}, {"counters", counter_permission()}};
    for (const std::string& name : Registry<Probe>::instance().names())
      all["machine"][name] = Registry<Probe>::instance().make(name)->look();
    for (const std::string& backend : Registry<BackendTraits>::instance().names()) {
      const std::string missing = find_backend(backend).missing;
      all["backends"][backend] = missing.empty() ? "works" : missing;
    }
    all["counter_sources"] = counter_sources_here();
    all["metric_names"] = metric_names();
    for (const Tool& tool : kTools)
      all["tools"].push_back(
          {{"name", tool.name}, {"found", succeeds(tool.test)}, {"disables", tool.disables}});
    if (json_)
      print_json(all);
    else
      tell(all);
    return kOk;
  }

 private:
  static void tell(const Json& all) {
    for (const auto& [name, value] : all["build"].items())
      fmt::print("{:18} {}\n", "build " + name, plain(value));
    for (const auto& [probe, facts] : all["machine"].items())
      for (const auto& [name, value] : facts.items())
        fmt::print("{:18} {}\n", probe + " " + name, plain(value));
    fmt::print("{:18} {}\n", "counters for", plain(all["counters"]));
    for (const auto& [backend, state] : all["backends"].items())
      fmt::print("{:18} {}\n", "backend " + backend, plain(state));
    for (const auto& [source, state] : all["counter_sources"].items())
      fmt::print("{:18} {}\n", "counters " + source, plain(state));
    fmt::print("{:18} {}\n", "metric names", plain(all["metric_names"]));
    for (const Json& tool : all["tools"])
      fmt::print("{:18} {}\n", tool["name"].get<std::string>(),
                 tool["found"].get<bool>()
                     ? "found"
                     : "missing; without it: " + tool["disables"].get<std::string>());
  }

  static std::string plain(const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  }

  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "doctor",
    .summary = "report the machine's hardware and software, and what each missing piece disables",
    .make = [](const Params&) { return std::make_unique<DoctorVerb>(); },
}};

}  // namespace
}  // namespace tessera
