// tessera_attack: the attack on the SpMM kernels, by seed. It stops and goes on where it was.

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "experiments/verbs/command_line.hpp"
#include "formats/base/check.hpp"
#include "formats/io/new_file.hpp"
#include "tests/attack/attack.hpp"

namespace tessera {
namespace {

using Json = nlohmann::json;

struct Tally {
  std::int64_t cases = 0, compared = 0, failed = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Tally, cases, compared, failed)

/// A run so far.
struct State {
  std::int64_t from = 0, next = 0;
  std::map<std::string, Tally> kernels;

  Tally total() const {
    Tally sum;
    for (const auto& [name, tally] : kernels) {
      sum.cases += tally.cases;
      sum.compared += tally.compared;
      sum.failed += tally.failed;
    }
    return sum;
  }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(State, from, next, kernels)

struct Options {
  std::int64_t from = 0, to = 1000000;
  double max_seconds = std::numeric_limits<double>::infinity();
  std::string state, failures = "attack-failures", replay;
  std::optional<std::int64_t> seed;
};

State state_at_start(const Options& options) {
  State state{options.from, options.from, {}};
  if (options.state.empty() || !std::filesystem::exists(options.state)) return state;
  try {
    std::ifstream file(options.state);
    state = Json::parse(file).get<State>();
  } catch (const std::exception& error) {
    throw Error(fmt::format("{}: {}", options.state, error.what()));
  }
  require(state.from == options.from, "{}: its run began at seed {}, not at {}", options.state,
          state.from, options.from);
  return state;
}

void write_state(const Options& options, const State& state) {
  if (options.state.empty()) return;
  NewFile file(options.state);
  require((std::ofstream(file.path()) << Json(state).dump() << "\n").flush().good(),
          "cannot write {}", options.state);
  file.keep();
}

/// The last words of a process that crashes: the seed that repeats it.
char last_words[64];
std::size_t last_size = 0;

extern "C" void say_seed(int signal) {
  if (write(STDERR_FILENO, last_words, last_size) < 0) _exit(1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void announce(std::int64_t seed) {
  last_size = fmt::format_to_n(last_words, sizeof last_words, "crashed: --case {}\n", seed).size;
}

/// Prints the verdict, and keeps the reduced case of a failure. Returns true when all is right.
bool judged(const AttackCase& given, const Attacked& kernels, const std::string& name,
            const Verdict& verdict, const std::string& folder) {
  if (verdict.fault.empty()) return true;
  fmt::print("FAILED {}: {}: {}\n  {}\n", name, verdict.fault, verdict.reason, describe(given));
  std::fflush(stdout);
  const AttackCase least = shrunk(given, kernels);
  const std::string path = fmt::format("{}/{}.json", folder, name);
  std::filesystem::create_directories(folder);
  save_case(least, path);
  fmt::print("  reduced: {}\n  {}\n  tessera_attack --replay {}\n", describe(least),
             attack(least, kernels).reason, path);
  std::fflush(stdout);
  return false;
}

void print_summary(const State& state, double seconds) {
  fmt::print("{:<14} {:>9} {:>9} {:>7}\n", "kernel", "cases", "compared", "failed");
  const auto line = [](const std::string& name, const Tally& tally) {
    fmt::print("{:<14} {:>9} {:>9} {:>7}\n", name, tally.cases, tally.compared, tally.failed);
  };
  for (const auto& [name, tally] : state.kernels) line(name, tally);
  line("all", state.total());
  fmt::print("seeds {} to {}, {:.0f} s in this run\n", state.from, state.next - 1, seconds);
}

bool run_seeds(const Options& options, const Attacked& kernels) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto seconds = [&](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  };
  State state = state_at_start(options);
  const std::int64_t cases_before = state.total().cases;
  auto saved = start, told = start;
  for (; state.next < options.to && seconds(start) < options.max_seconds; ++state.next) {
    if (seconds(saved) > 2) write_state(options, state), saved = Clock::now();
    if (seconds(told) > 10) {
      const Tally total = state.total();
      fmt::print("seed {}: {} cases, {:.1f} per second, {} failed\n", state.next, total.cases,
                 static_cast<double>(total.cases - cases_before) / seconds(start), total.failed);
      std::fflush(stdout), told = Clock::now();
    }
    announce(state.next);
    const AttackCase drawn = draw_case(state.next);
    const Verdict verdict = attack(drawn, kernels);
    const bool right =
        judged(drawn, kernels, fmt::format("seed-{}", state.next), verdict, options.failures);
    Tally& tally = state.kernels[drawn.choice.kernel];
    ++tally.cases, tally.compared += verdict.compared, tally.failed += !right;
  }
  write_state(options, state);
  print_summary(state, seconds(start));
  return state.total().failed == 0;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app(
      "attacks the SpMM kernels with matrices that are easy to get wrong: emulations "
      "against fp64 truth and, on a GPU, launches against emulations, bit by bit",
      "tessera_attack");
  app.add_option("--from", options.from, "first seed; 0 without it");
  app.add_option("--to", options.to, "seed before which the run ends");
  app.add_option("--max-seconds", options.max_seconds, "time after which the run ends, in seconds");
  app.add_option("--state", options.state,
                 "file that keeps the next seed and the counts: the same command goes on there");
  app.add_option("--failures", options.failures, "folder for the reduced cases of failures");
  app.add_option("--case", options.seed, "attack with this seed alone");
  app.add_option("--replay", options.replay, "attack with a saved case alone");
  app.example("tessera_attack --max-seconds 3600 --state attack.state", "an hour of cases");
  app.footer("Exit codes: 0 no case failed; 1 a case failed; 2 the command is wrong.");
  if (const std::optional<bool> done = app.parse(argc, argv)) return *done ? 0 : 2;

  for (const int signal : {SIGSEGV, SIGFPE, SIGABRT, SIGBUS}) std::signal(signal, say_seed);
  const Attacked kernels = registered_kernels();
  fmt::print("{}\n", kernels.launch ? "emulations and launches are attacked"
                                    : "emulations are attacked: there is no GPU");
  if (!options.seed && options.replay.empty()) return run_seeds(options, kernels) ? 0 : 1;

  const AttackCase given = options.seed ? draw_case(*options.seed) : load_case(options.replay);
  fmt::print("{}\n", describe(given));
  const Verdict verdict = attack(given, kernels);
  if (!options.seed) {
    fmt::print("{}\n", verdict.fault.empty() ? "right" : verdict.reason);
    return verdict.fault.empty() ? 0 : 1;
  }
  const bool right =
      judged(given, kernels, fmt::format("seed-{}", *options.seed), verdict, options.failures);
  if (right) fmt::print("right{}\n", verdict.compared ? "" : ", but only its packing was checked");
  return right ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    return tessera::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera_attack: {}\n", error.what());
    return 2;
  }
}
