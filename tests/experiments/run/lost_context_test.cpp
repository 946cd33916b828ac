// A process that loses its device, dies or hangs: its point is recorded with the reason, and a new
// process does the points behind it and those that its other lanes worked on.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/launch_watch.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/records/record_set.hpp"
#include "experiments/run/runner.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// What is wrong with a device: it is lost at some formats, its process dies at format "coo", the
/// launch of that format does not end, its process dies when the device is opened, or the first of
/// two is lost at the first point of each of its first processes, while the second is slow.
enum class Ill { kIsLost, kKills, kHangs, kKillsAtOpening, kFirstIsLost };

constexpr int kLosses = 3;  // of the first of two devices

/// How often the device of that name was opened.
int openings_of(const std::string& openings, const std::string& device) {
  std::ifstream lines(openings);
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line == device;
  return count;
}

/// Packs as backend "pack" does, on such a device. It is lost at one format with an error of the
/// runtime, at two with what a library makes of the loss, as CUDA does it.
class ToyDevice final : public Backend {
 public:
  /// `openings` is a file to which each opening of a device adds a line with its name.
  ToyDevice(Ill ill, std::string openings) : ill_(ill), openings_(std::move(openings)) {}

  std::string origin() const override { return "measured"; }
  bool has_lost_device() const override { return is_lost; }
  void open_device() const override {
    if (ill_ == Ill::kKillsAtOpening) std::raise(SIGSEGV);
    std::ofstream(openings_, std::ios::app) << name_of_device() << "\n";
  }

  PackingResult pack(const PackingInput& input) const override {
    const std::string& format = packing(input.point).format.name;
    if (ill_ == Ill::kIsLost) lose_at(format);
    if (ill_ == Ill::kFirstIsLost) lose_the_first();
    if (ill_ == Ill::kKills && format == "coo") {
      wait();
      std::raise(SIGSEGV);
    }
    if (ill_ == Ill::kHangs && format == "coo") {
      const WatchedLaunch watched;
      std::this_thread::sleep_for(std::chrono::minutes(1));
    }
    return find_backend("pack").backend->pack(input);
  }

 private:
  static std::string name_of_device() {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible == nullptr ? "" : visible;
  }

  void lose_the_first() const {
    wait();
    if (name_of_device() != "0" || openings_of(openings_, "0") > kLosses) return;
    is_lost = true;
    throw std::runtime_error("CUDA error while running the kernel: an illegal memory access");
  }

  /// Long enough for other lanes to begin their points, and to ask for the device.
  static void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

  static void lose_at(const std::string& format) {
    if (is_lost) throw OutOfMemory("the device takes no more work");
    is_lost = format == "coo" || format == "csr32" || format == "bit_tcf";
    if (is_lost) wait();
    if (format == "coo")
      throw std::runtime_error("CUDA error while running the kernel: an illegal memory access");
    if (format == "csr32") throw OutOfMemory("the library has no memory");
    require<Unsupported>(format != "bit_tcf", "the library does not take this case");
    require<OutOfMemory>(format != "tcf", "no memory for once");
  }

  inline static std::atomic<bool> is_lost = false;
  Ill ill_;
  std::string openings_;
};

/// A device, and on how many of them a run measures; 0 for a process of one lane. Where it is
/// `shared`, lanes do not take turns on it.
struct Case {
  Ill ill = Ill::kIsLost;
  int gpus = 0;
  bool shared = false;
  std::string formats = R"("csr", "coo", "me_tcf", "bcsr")";
};

constexpr int kMatrices = 5;

/// Runs the config into `folder`, in this process, which alone knows the backend then.
void run(const TemporaryFolder& folder, const Case& of) {
  const RegisterTraits<BackendTraits> traits{
      "toy_device", "", {.activity = Activity::kPack, .needs_gpu = !of.shared}};
  const Register<Backend> entry{{
      .name = "toy_device",
      .summary = "an ill device, for the tests of runs",
      .make =
          [&](const Params&) { return std::make_unique<ToyDevice>(of.ill, folder / "openings"); },
  }};
  RunOptions options;
  options.out = folder / "out";
  options.gpus = of.gpus;
  options.launch_timeout_s = 0.2;
  const Plan plan = make_plan(load_config(folder / "c.toml"));
  const RunSummary summary = run_plan(plan, options);
  if (summary.ran != static_cast<int>(plan.entries.size()) || summary.left != 0) std::_Exit(1);
}

/// The last records of a run on five matrices, by format. The run is in `folder`.
std::multimap<std::string, Json> records_of_a_run(const TemporaryFolder& folder, const Case& of) {
  std::string matrices;
  for (int seed = 0; seed < kMatrices; ++seed)
    matrices +=
        fmt::format("{}\"uniform(rows={}, seed={})\"", seed > 0 ? ", " : "", 40 - seed, seed);
  write_text(folder / "c.toml",
             fmt::format("schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"toy_device\"]\n"
                         "[grid]\nmatrix = [{}]\nformat = [{}]\n",
                         matrices, of.formats));
  const EnvironmentVariable cache("TESSERA_CACHE", folder / "cache");
  const Outcome outcome = in_child([&] { run(folder, of); });
  CAPTURE(outcome.output);
  CHECK(outcome.exit_code == 0);
  std::multimap<std::string, Json> found;
  const RecordSet records = read_records(folder / "out");
  CHECK(records.environments.size() == 1);
  for (const Json& record : records.points) {
    CHECK(records.environments.contains(record["env_id"].get<std::string>()));
    found.emplace(record["params"]["format"]["name"], record);
  }
  return found;
}

std::multimap<std::string, Json> records_of_a_run(const Case& of) {
  return records_of_a_run(TemporaryFolder(), of);
}

/// How often each request is recorded in the files of a run.
std::map<std::string, int> times_recorded(const TemporaryFolder& folder) {
  std::map<std::string, int> times;
  for (const auto& file : std::filesystem::directory_iterator(folder / "out")) {
    std::ifstream lines(file.path());
    for (std::string line; std::getline(lines, line);)
      if (const Json record = Json::parse(line); record["type"] == "point")
        ++times[record["params_hash"]];
  }
  return times;
}

void check(const std::multimap<std::string, Json>& found, const std::string& format,
           const std::string& status, const std::string& reason) {
  CAPTURE(format);
  CHECK(found.count(format) == kMatrices);
  for (auto [at, end] = found.equal_range(format); at != end; ++at) {
    CHECK(at->second["status"] == status);
    CHECK(at->second.value("reason", "") == reason);
    CHECK_FALSE(at->second.contains("skip"));
  }
}

TEST_CASE("a lost device costs one point, whatever error tells of it, and the run goes on") {
  for (const int gpus : {0, 1, 2}) {
    CAPTURE(gpus);

    const auto found = records_of_a_run(
        {.gpus = gpus, .formats = R"("csr", "coo", "tcf", "me_tcf", "csr32", "bcsr", "bit_tcf")"});

    for (const char* format : {"csr", "me_tcf", "bcsr"}) check(found, format, "ok", "");
    check(found, "coo", "failed", "CUDA error while running the kernel: an illegal memory access");
    check(found, "csr32", "failed", "the library has no memory (the process has lost its device)");
    check(found, "bit_tcf", "failed",
          "the library does not take this case (the process has lost its device)");
    check(found, "tcf", "oom", "no memory for once");
  }
}

TEST_CASE(
    "a GPU that is lost again and again fails its points, and another GPU's process goes on") {
  const TemporaryFolder folder;

  const auto found = records_of_a_run(folder, {Ill::kFirstIsLost, 2});

  std::map<std::string, int> by_status;
  for (const auto& [format, record] : found) ++by_status[record["status"]];
  CHECK(by_status ==
        std::map<std::string, int>{{"ok", 4 * kMatrices - kLosses}, {"failed", kLosses}});
  const std::map<std::string, int> times = times_recorded(folder);
  CHECK(std::ssize(times) == 4 * kMatrices);
  for (const auto& [request, count] : times) CHECK(count == 1);
  CHECK(openings_of(folder / "openings", "1") == 1);
  CHECK(openings_of(folder / "openings", "0") >= kLosses);
}

TEST_CASE("a process that dies costs one point, whatever its other lanes work on") {
  for (const int gpus : {0, 1, 2}) {
    for (const bool shared : {false, true}) {
      CAPTURE(gpus);
      CAPTURE(shared);

      const auto found = records_of_a_run({Ill::kKills, gpus, shared});

      for (const char* format : {"csr", "me_tcf", "bcsr"}) check(found, format, "ok", "");
      check(found, "coo", "failed", "the process died: signal 11 (Segmentation fault)");
    }
  }
}

TEST_CASE("a launch that does not end costs its point alone") {
  for (const int gpus : {0, 1, 2}) {
    CAPTURE(gpus);

    const auto found = records_of_a_run({Ill::kHangs, gpus});

    for (const char* format : {"csr", "me_tcf", "bcsr"}) check(found, format, "ok", "");
    check(found, "coo", "timeout", "a launch has not ended after 0.2 s (launch_timeout_s)");
  }
}

TEST_CASE("a device whose opening kills every process fails every point, and the run ends") {
  for (const int gpus : {1, 2}) {
    CAPTURE(gpus);

    const auto found = records_of_a_run({.ill = Ill::kKillsAtOpening, .gpus = gpus});

    for (const char* format : {"csr", "coo", "me_tcf", "bcsr"})
      check(found, format, "failed", "the process died: signal 11 (Segmentation fault)");
  }
}

}  // namespace
}  // namespace tessera
