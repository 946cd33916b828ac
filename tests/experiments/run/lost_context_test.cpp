// A process that has lost its device: its point is recorded with the reason, and a new process does
// the points behind it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <stdexcept>

#include "experiments/backends/backend.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/records/record_set.hpp"
#include "experiments/run/runner.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// Packs as backend "pack" does, on a device that this process loses at some formats: at one with
/// an error of the runtime, at two with what a library makes of the loss, as CUDA does it.
class ToyDevice final : public Backend {
 public:
  std::string origin() const override { return "measured"; }
  bool has_lost_device() const override { return lost(); }

  PackingResult pack(const PackingInput& input) const override {
    const std::string& format = packing(input.point).format.name;
    if (lost()) throw OutOfMemory("the device takes no more work");
    lost() = format == "coo" || format == "csr32" || format == "bit_tcf";
    if (format == "coo")
      throw std::runtime_error("CUDA error while running the kernel: an illegal memory access");
    if (format == "csr32") throw OutOfMemory("the library has no memory");
    require<Unsupported>(format != "bit_tcf", "the library does not take this case");
    require<OutOfMemory>(format != "tcf", "no memory for once");
    return find_backend("pack").backend->pack(input);
  }

 private:
  static bool& lost() {
    static bool is_lost = false;
    return is_lost;
  }
};

/// Runs the config into `folder`, in this process, which alone knows the backend then.
void run(const TemporaryFolder& folder, int gpus) {
  const RegisterTraits<BackendTraits> traits{"toy_device", "", {.activity = Activity::kPack}};
  const Register<Backend> entry{{
      .name = "toy_device",
      .summary = "loses its device, for the tests of runs",
      .make = [](const Params&) { return std::make_unique<ToyDevice>(); },
  }};
  RunOptions options;
  options.out = folder / "out";
  options.gpus = gpus;
  const RunSummary summary = run_plan(make_plan(load_config(folder / "c.toml")), options);
  if (summary.ran != 14 || summary.left != 0) std::_Exit(1);
}

/// The last records of a run on two matrices, by format.
std::multimap<std::string, Json> records_of_a_run(const TemporaryFolder& folder, int gpus) {
  write_text(folder / "c.toml",
             "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"toy_device\"]\n[grid]\n"
             "matrix = [\"uniform(rows=40, seed=9)\", \"uniform(rows=30, seed=8)\"]\n"
             "format = [\"csr\", \"coo\", \"tcf\", \"me_tcf\", \"csr32\", \"bcsr\", "
             "\"bit_tcf\"]\n");
  const EnvironmentVariable cache("TESSERA_CACHE", folder / "cache");
  const Outcome outcome = in_child([&] { run(folder, gpus); });
  CAPTURE(outcome.output);
  CHECK(outcome.exit_code == 0);
  std::multimap<std::string, Json> found;
  for (const Json& record : read_records(folder / "out").points)
    found.emplace(record["params"]["format"]["name"], record);
  return found;
}

TEST_CASE("a lost device costs one point, whatever error tells of it, and the run goes on") {
  for (const int gpus : {0, 1}) {
    CAPTURE(gpus);
    const TemporaryFolder folder;

    const auto found = records_of_a_run(folder, gpus);

    CHECK(found.size() == 14);
    const auto check = [&](const char* format, const char* status, const char* reason) {
      CAPTURE(format);
      CHECK(found.count(format) == 2);
      for (auto [at, end] = found.equal_range(format); at != end; ++at) {
        CHECK(at->second["status"] == status);
        CHECK(at->second.value("reason", "") == reason);
        CHECK_FALSE(at->second.contains("skip"));
      }
    };
    for (const char* format : {"csr", "me_tcf", "bcsr"}) check(format, "ok", "");
    check("coo", "failed", "CUDA error while running the kernel: an illegal memory access");
    check("csr32", "failed", "the library has no memory (the process has lost its device)");
    check("bit_tcf", "failed",
          "the library does not take this case (the process has lost its device)");
    check("tcf", "oom", "no memory for once");
  }
}

}  // namespace
}  // namespace tessera
