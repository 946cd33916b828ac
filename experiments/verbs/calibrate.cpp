// tessera calibrate: micro-benchmarks on the GPU of this machine, as a device file and curves.

#include <filesystem>

#include "experiments/backends/backend.hpp"
#include "experiments/machine/machine.hpp"
#include "experiments/run/calibration.hpp"
#include "experiments/run/progress.hpp"
#include "experiments/tables/table.hpp"
#include "experiments/tables/write_file.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

using Microbenchmarks = Registry<Microbenchmark>;

class CalibrateVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("--out", out_, "write the device file to FILE.toml, not to the terminal")
        ->takes("FILE");
    app.add_option("--curves", curves_, "write every curve to a CSV file in this folder")
        ->takes("FOLDER");
    app.add_option("--only", only_, "only these micro-benchmarks (`tessera list microbenchmarks`)")
        ->takes("MICROBENCHMARK");
    app.add_option("--device", device_, "what this GPU is, when its name does not say");
    app.add_flag("--quick", quick_, "few repeats and small sizes: to see that it works");
    app.example("tessera calibrate --out mygpu.toml", "a device file for the models; minutes");
  }

  int run() override {
    const Microbenchmarks& known = Microbenchmarks::instance();
    // A build without the CUDA half knows no name that could be misspelt.
    if (!known.entries().empty())
      for (const std::string& name : only_) known.find(name);
    if (!device_.empty()) find_device(device_);
    // A process of its own looks at the GPU: this one must not have touched it before.
    const Json environment = environment_record();
    if (const std::string missing = find_backend("gpu").missing; !missing.empty()) {
      fmt::print(stderr, "nothing to calibrate: {}\n", missing);
      return kMissing;
    }
    const Json& gpu = environment.at("gpu");
    Device device = device_to_calibrate(device_, gpu.at("name"), gpu.at("tensor_cores"),
                                        gpu.at("compute_capability"));
    const double clock_before = clock_mhz();
    const Findings findings = run_all(only_.empty() ? known.names() : only_);
    report(device, findings, source_text(environment, clock_before, clock_mhz()));
    return exit_code_;
  }

 private:
  double clock_mhz() const {
    return Microbenchmarks::instance().make("clock")->run({3, true}).numbers.at(0).value;
  }

  Findings run_all(const std::vector<std::string>& names) {
    Findings all;
    Progress progress(static_cast<int>(names.size()));
    for (const std::string& name : names) {
      progress.working_on(name);
      std::string remark;
      try {
        const Effort effort{quick_ ? 3 : 11, quick_};
        const Findings found = Microbenchmarks::instance().make(name)->run(effort);
        all.numbers.insert(all.numbers.end(), found.numbers.begin(), found.numbers.end());
        all.curves.insert(all.curves.end(), found.curves.begin(), found.curves.end());
      } catch (const Unsupported& error) {
        remark = fmt::format("{}: skipped: {}", name, error.what());
      } catch (const Error& error) {
        remark = fmt::format("{}: FAILED: {}", name, error.what());
        exit_code_ = kFailed;
      }
      progress.done(name, remark);
    }
    return all;
  }

  static std::string source_text(const Json& environment, double clock_before, double clock_after) {
    const Json& gpu = environment.at("gpu");
    return fmt::format("measured by tessera calibrate on {}, {}, CUDA {}, driver {}, SM clock {}",
                       gpu.at("name").get<std::string>(),
                       environment.at("started_at").get<std::string>().substr(0, 10),
                       gpu.at("cuda_runtime").get<std::string>(),
                       gpu.at("driver").get<std::string>(), clock_range(clock_before, clock_after));
  }

  void report(Device& device, const Findings& findings, const std::string& source) {
    for (const std::string& problem : take_numbers(device, findings.numbers, source)) {
      fmt::print(stderr, "not taken: {}\n", problem);
      exit_code_ = kWrong;
    }
    if (out_.empty())
      fmt::print("{}", device_text(device));
    else
      write_file(out_, device_text(device));
    if (curves_.empty()) return;
    std::filesystem::create_directories(curves_);
    for (const Curve& curve : findings.curves)
      write_file((std::filesystem::path(curves_) / (curve.name + ".csv")).string(),
                 curve_csv(curve));
  }

  std::string out_, curves_, device_;
  std::vector<std::string> only_;
  bool quick_ = false;
  int exit_code_ = kOk;
};

const Register<Verb> entry{{
    .name = "calibrate",
    .summary = "run micro-benchmarks on this GPU and write a device file and curves",
    .make = [](const Params&) { return std::make_unique<CalibrateVerb>(); },
}};

}  // namespace
}  // namespace tessera
