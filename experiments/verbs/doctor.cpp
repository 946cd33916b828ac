// tessera doctor: what this machine has, and what each missing piece disables.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include "experiments/backends/backend.hpp"
#include "experiments/counters/counter_source.hpp"
#include "experiments/counters/metric_catalog.hpp"
#include "experiments/machine/container.hpp"
#include "experiments/machine/machine.hpp"
#include "experiments/machine/terminal.hpp"
#include "experiments/tables/python.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/shipped_files.hpp"

namespace tessera {
namespace {

bool succeeds(const std::string& command) {
  return std::system(("{ " + command + "; } >/dev/null 2>&1").c_str()) == 0;
}

/// A program, and what is lost without it.
struct Tool {
  const char* name;
  const char* test;
  const char* disables;
};

constexpr Tool kTools[] = {
    {"nvcc", "command -v nvcc || test -x /usr/local/cuda/bin/nvcc", "building the CUDA half here"},
    {"compute-sanitizer", "command -v compute-sanitizer", "checking kernels for memory errors"},
};

/// A module of Python, and what is lost without it.
struct Module {
  const char* name;
  const char* disables;
};

constexpr Module kModules[] = {{"matplotlib", "tessera figure"},
                               {"numpy", "tessera figure"},
                               {"pandas", "the story notebook"},
                               {"nbformat", "turning scripts into .ipynb"}};

/// The output of a shell command, without the last end of line; "" when it fails.
std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      popen((command + " 2>/dev/null").c_str(), "r"), &pclose);
  std::string text;
  std::array<char, 256> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

/// The Python that draws the figures, as the scripts find it, and the modules that none has.
Json python_of_figures() {
  Json found{{"used", ""}, {"remark", ""}, {"missing", Json::array()}};
  std::string first;
  try {
    first = find_python();
  } catch (const Error& error) {
    found["remark"] = error.what();
    return found;
  }
  const std::string search =
      fmt::format("'{}' -B '{}' ", first, shipped_path("notebooks/needs.py"));
  for (const Module& module : kModules) {
    const std::string python = output_of(search + module.name);
    if (python.empty())
      found["missing"].push_back({{"name", module.name}, {"disables", module.disables}});
    if (module.name == std::string_view("matplotlib"))
      found["used"] = python.empty() ? first : python;
  }
  const std::string used = found["used"];
  if (used != first) found["remark"] = fmt::format("{} lacks matplotlib", first);
  found["version"] =
      output_of(fmt::format("'{}' -c 'import platform; print(platform.python_version())'", used));
  return found;
}

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
  void declare(CLI::App& app) override {
    app.add_flag("--json", json_, "print JSON");
    app.example("tessera doctor", "build, machine, backends, counters and tools");
  }

  int run() override {
    Json all{{"build", build_description()}, {"counters", counter_permission()}};
    for (const std::string& name : Registry<Probe>::instance().names())
      all["machine"][name] = Registry<Probe>::instance().make(name)->look();
    for (const std::string& backend : Registry<BackendTraits>::instance().names()) {
      const std::string missing = find_backend(backend).missing;
      all["backends"][backend] = missing.empty() ? "works" : missing;
    }
    const Container container = find_container();
    all["container"] = {{"kind", container.kind.empty() ? "none" : container.kind},
                        {"lacks", lack_of(container)}};
    all["counter_sources"] = counter_sources_here();
    all["metric_names"] = metric_names();
    all["python"] = python_of_figures();
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
    tell_container(all["container"]);
    fmt::print("{:18} {}\n", "counters for", plain(all["counters"]));
    for (const auto& [backend, state] : all["backends"].items())
      fmt::print("{:18} {}\n", "backend " + backend, state_text(state));
    for (const auto& [source, state] : all["counter_sources"].items())
      fmt::print("{:18} {}\n", "counters " + source, state_text(state));
    fmt::print("{:18} {}\n", "metric names", plain(all["metric_names"]));
    tell_python(all["python"]);
    for (const Json& tool : all["tools"])
      fmt::print("{:18} {}\n", tool["name"].get<std::string>(),
                 tool["found"].get<bool>() ? verdict_text("found") : missing_text(tool));
  }

  static void tell_container(const Json& container) {
    fmt::print("{:18} {}\n", "container", plain(container["kind"]));
    if (container["lacks"] != "")
      fmt::print("{:18} {}\n", "container lacks", toned(Tone::kWarning, plain(container["lacks"])));
  }

  static void tell_python(const Json& python) {
    const std::string used = python["used"], remark = python["remark"];
    fmt::print("{:18} {}{}{}\n", "python of figures", used,
               used.empty() ? "" : " (" + python["version"].get<std::string>() + ")",
               remark.empty() ? "" : (used.empty() ? "" : "; ") + toned(Tone::kWarning, remark));
    for (const Json& module : python.value("missing", Json::array()))
      fmt::print("{:18} {}\n", "python " + module["name"].get<std::string>(), missing_text(module));
  }

  static std::string missing_text(const Json& thing) {
    return fmt::format("{}; without it no {}", verdict_text("missing"),
                       thing["disables"].get<std::string>());
  }

  /// "works" in green, a reason as it is.
  static std::string state_text(const Json& state) { return verdict_text(plain(state)); }

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
