// Counter source "ncu": runs the point once more as a child under Nsight Compute and reads its CSV.
//
// The child marks the one product to count (source "external") after the same preparation of the
// L2. ncu replays each kernel of it as often as its metrics need: with l2 = "warm" over the caches
// as the replay before left them, with "flush" over caches that it empties before every kernel, so
// also between those of one product. Clocks are left as the timed launches had them.

#include <fcntl.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "experiments/counters/counter_source.hpp"
#include "experiments/counters/ncu_report.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

extern char** environ;

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// A folder of its own, gone at the end of the scope.
class Scratch {
 public:
  Scratch() : path_((fs::temp_directory_path() / "tessera-ncu-XXXXXX").string()) {
    require(mkdtemp(path_.data()) != nullptr, "{}: cannot be made", path_);
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool executable(const fs::path& path) {
  return fs::is_regular_file(path) && access(path.c_str(), X_OK) == 0;
}

/// In $PATH, beside nvcc, or in the newest folder of an Nsight Compute; empty when nowhere.
std::string find_ncu() {
  std::vector<fs::path> folders;
  const char* path = std::getenv("PATH");
  std::istringstream listed(path == nullptr ? "" : path);
  for (std::string folder; std::getline(listed, folder, ':');) folders.emplace_back(folder);
  folders.emplace_back("/usr/local/cuda/bin");
  std::vector<fs::path> nsight;
  for (const char* parent : {"/usr/local/cuda", "/opt/nvidia/nsight-compute"}) {
    std::error_code absent;
    for (const auto& entry : fs::directory_iterator(parent, absent))
      if (entry.path().string().find("nsight-compute") != std::string::npos)
        nsight.push_back(entry.path());
  }
  std::ranges::sort(nsight, std::ranges::greater());
  folders.insert(folders.end(), nsight.begin(), nsight.end());
  for (const fs::path& folder : folders)
    if (executable(folder / "ncu")) return (folder / "ncu").string();
  return "";
}

/// Runs a program to its end; its exit code, or 128 + the signal that ended it.
int run_program(const std::vector<std::string>& arguments, const std::string& out,
                const std::string& err) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kWrite, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kWrite, 0600);
  pid_t child = 0;
  const int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  require(failed == 0, "{} cannot be started", arguments.front());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The point as the child runs it: marked for ncu, timed no longer than choosing an algorithm
/// takes.
Json child_point(const Point& point) {
  Point child = point;
  child.counters.source = "external";
  child.check = {.enabled = false};
  std::get<DenseProduct>(child.task).unpermute = false;
  child.measure.max_samples = child.measure.min_samples;
  return to_json(child);
}

/// Arguments of ncu before those of the program it runs.
std::vector<std::string> ncu_command(const std::string& report, const std::string& l2,
                                     const std::vector<std::string>& metrics) {
  std::vector<std::string> command{find_ncu()};
  for (const char* argument : {"--csv", "--page", "raw", "--print-units", "base", "--clock-control",
                               "none", "--profile-from-start", "off"})
    command.emplace_back(argument);
  command.insert(command.end(), {"--cache-control", l2 == "flush" ? "all" : "none"});
  command.insert(command.end(), {"--log-file", report});
  command.insert(command.end(), {"--metrics", fmt::format("{}", fmt::join(metrics, ","))});
  return command;
}

/// The error messages of the child and of ncu.
std::string complaint(const std::string& errors, const std::string& report) {
  std::string said;
  for (const std::string& text : {errors, report}) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("==ERROR==") || line.starts_with("error:"))
        said += (said.empty() ? "" : "; ") + line;
  }
  return said.empty() ? errors.substr(0, 500) : said;
}

/// The child's record says how its attempt ended, and with which algorithm.
void check_child(const std::string& printed, const std::string& algorithm) {
  const Json record = Json::parse(printed.substr(printed.find('{')), nullptr, false);
  require(record.is_object(), "the child under ncu printed no record");
  require(record.value("status", "") == "ok", "the child under ncu ended '{}': {}",
          record.value("status", ""), record.value("reason", ""));
  const std::string counted = record.value("winner", "");
  require(counted == algorithm, "the child under ncu found '{}' fastest, and '{}' was timed",
          counted, algorithm);
}

class NcuCounters final : public CounterSource {
 public:
  std::string unavailable() const override {
    return find_ncu().empty() ? "ncu is not on this machine" : "";
  }

  CounterValues collect(const std::vector<std::string>& metrics,
                        const CountedProduct& product) const override {
    const Scratch scratch;
    const std::string point = scratch.file("point.json"), report = scratch.file("report.csv");
    const std::string out = scratch.file("out"), err = scratch.file("err");
    std::ofstream(point) << child_point(product.point).dump();
    const std::vector<std::string> wanted = with_companions(metrics);
    std::vector<std::string> command = ncu_command(report, product.point.measure.l2, wanted);
    command.push_back(fs::read_symlink("/proc/self/exe").string());
    command.insert(command.end(), {"point", "--no-environment", "--json", point});
    const int code = run_program(command, out, err);
    const std::string table = text_of(report);
    const std::string printed = text_of(out);
    require<Unsupported>(table.find("ERR_NVGPUCTRPERM") == std::string::npos,
                         "ncu: this machine's driver lets only root read counters");
    require(code == 0 && printed.find('{') != std::string::npos, "ncu ended with {}: {}", code,
            complaint(text_of(err), table));
    check_child(printed, product.algorithm);
    return combine_launches(metrics, read_ncu_report(table, wanted));
  }
};

constexpr const char* kSummary = "the point once more, as a child of Nsight Compute";
const RegisterTraits<CounterSourceTraits> traits{"ncu", kSummary, {.auto_rank = 2}};
const Register<CounterSource> entry{{
    .name = "ncu",
    .summary = kSummary,
    .make = [](const Params&) { return std::make_unique<NcuCounters>(); },
}};

}  // namespace
}  // namespace tessera
