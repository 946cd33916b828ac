// A small fuzz engine for compilers without libFuzzer, with the part of its command line that
// tests/fuzz/run uses. It keeps inputs that reach new code (-fsanitize-coverage=trace-pc) and
// mutates them; draws follow the seed. The inputs run in a child: the parent saves the one that
// ended it.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/base/hash.hpp"
#include "formats/base/random.hpp"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" char __executable_start;

namespace {

constexpr std::size_t kPlaces = 1 << 16;
alignas(8) std::array<std::uint8_t, kPlaces> hits;  // of the present input

}  // namespace

// Called at every branch of the code under test.
extern "C" void __sanitizer_cov_trace_pc();
extern "C" __attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) -
                     reinterpret_cast<std::uintptr_t>(&__executable_start);
  std::uint8_t& count = hits[(place ^ (place >> 16)) % kPlaces];
  if (count != 255) ++count;
}

namespace tessera::fuzz {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Options {
  double seconds = 0;
  std::int64_t runs = -1;  // 0: the given inputs alone
  std::uint64_t seed = 1;
  std::size_t max_len = 4096;
  unsigned timeout = 10;
  std::size_t rss_limit_mb = 1024;
  std::string artifacts;
  std::vector<std::string> paths;  // folders, of which new inputs go to the first; or files
};

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    const std::string value = argument.substr(std::min(argument.size(), equals + 1));
    if (argument.starts_with("-max_total_time=")) options.seconds = std::stod(value);
    if (argument.starts_with("-runs=")) options.runs = std::stoll(value);
    if (argument.starts_with("-seed=")) options.seed = std::stoull(value);
    if (argument.starts_with("-max_len=")) options.max_len = std::stoull(value);
    if (argument.starts_with("-timeout="))
      options.timeout = static_cast<unsigned>(std::stoul(value));
    if (argument.starts_with("-rss_limit_mb=")) options.rss_limit_mb = std::stoull(value);
    if (argument.starts_with("-artifact_prefix=")) options.artifacts = value;
    if (!argument.starts_with("-")) options.paths.push_back(argument);
  }
  return options;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string name_of(std::string_view input) {
  Hasher hasher;
  hasher.add(input);
  return hasher.hex128().substr(0, 16);
}

/// Between the child that runs the inputs and its parent.
struct Shared {
  std::int64_t executions;
  std::int64_t kept;
  std::size_t size;
  char input[1 << 20];
};

class Engine {
 public:
  Engine(Options options, Shared& shared)
      : options_(std::move(options)), shared_(shared), random_(options_.seed) {}

  void run() {
    const auto end = Clock::now() + std::chrono::duration<double>(options_.seconds);
    std::vector<std::string> given;
    for (const std::string& path : options_.paths) {
      if (!fs::is_directory(path)) given.push_back(bytes_of(path));
      if (!fs::is_directory(path)) continue;
      std::vector<fs::path> files;
      for (const auto& file : fs::directory_iterator(path)) files.push_back(file.path());
      std::ranges::sort(files);
      for (const fs::path& file : files) given.push_back(bytes_of(file));
    }
    for (const std::string& input : given)
      if (execute(input)) corpus_.push_back(input);
    if (corpus_.empty()) corpus_.emplace_back();
    const bool only_files = !options_.paths.empty() && !fs::is_directory(options_.paths.front());
    if (only_files || options_.runs == 0 || options_.seconds <= 0) return;
    while (Clock::now() < end) {
      const std::string input = shared_.executions % 2 == 0 ? swept() : mutated();
      if (!execute(input)) continue;
      corpus_.push_back(input);
      ++shared_.kept;
      if (!options_.paths.empty())
        std::ofstream(fs::path(options_.paths.front()) / name_of(input), std::ios::binary) << input;
    }
  }

 private:
  /// Runs an input; true when it reached a place, or a number of visits, that is new.
  bool execute(const std::string& input) {
    shared_.size = std::min(input.size(), sizeof shared_.input);
    std::memcpy(shared_.input, input.data(), shared_.size);
    hits.fill(0);
    alarm(options_.timeout);
    // A copy of its exact size: a read behind its end is seen.
    const std::vector<std::uint8_t> copy(shared_.input, shared_.input + shared_.size);
    LLVMFuzzerTestOneInput(copy.data(), copy.size());
    alarm(0);
    ++shared_.executions;
    bool is_new = false;
    for (std::size_t i = 0; i < kPlaces; ++i) {
      std::uint64_t eight;  // most are zero
      std::memcpy(&eight, &hits[i / 8 * 8], 8);
      if (eight == 0) i += 7;
      if (eight == 0 || hits[i] == 0) continue;
      int log = 0;
      for (unsigned count = hits[i]; count > 1; count /= 2) ++log;
      const auto mark = static_cast<std::uint8_t>(1 << log);
      is_new |= (seen_[i] & mark) == 0;
      seen_[i] |= mark;
    }
    return is_new;
  }

  /// Every value of each of the first bytes of every input that is kept: numbers and magics that
  /// are compared byte by byte open one after the other.
  std::string swept() {
    constexpr std::size_t kFirst = 8;
    while (sweep_ < corpus_.size() && place_ >= 256 * std::min(kFirst, corpus_[sweep_].size())) {
      ++sweep_;
      place_ = 0;
    }
    if (sweep_ == corpus_.size()) return mutated();
    std::string text = corpus_[sweep_];
    text[place_ / 256] = static_cast<char>(place_ % 256);
    ++place_;
    return text;
  }

  std::string mutated() {
    static const std::vector<std::string> kWords = {"-1",
                                                    "0",
                                                    "1e39",
                                                    "nan",
                                                    "-inf",
                                                    "2147483648",
                                                    "-9223372036854775808",
                                                    "9999999999999999999",
                                                    "\n",
                                                    "\"",
                                                    "[",
                                                    "]",
                                                    "{",
                                                    "}",
                                                    "=",
                                                    ",",
                                                    ".",
                                                    "%",
                                                    "#",
                                                    std::string(4, '\xff'),
                                                    std::string(8, '\0'),
                                                    std::string("\0\0\0\x80", 4),
                                                    "\r\n",
                                                    "../",
                                                    "@"};
    // The newest inputs reach what the others do not.
    const std::size_t size = corpus_.size();
    const std::size_t pick = random_.below(2) == 0
                                 ? random_.below(size)
                                 : size - 1 - random_.below(std::min<std::size_t>(size, 16));
    std::string text = corpus_[pick];
    const int changes = 1 << random_.below(4);
    for (int c = 0; c < changes; ++c) {
      const std::size_t at = random_.below(text.size() + 1);
      switch (random_.below(9)) {
        case 0:
          if (at < text.size()) text[at] = static_cast<char>(random_.bits());
          break;
        case 1:
          if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random_.below(8)));
          break;
        case 2:
          if (at < text.size())
            text[at] = static_cast<char>(text[at] + (random_.below(2) ? 1 : -1));
          break;
        case 3:
          text.insert(at, 1, static_cast<char>(random_.bits()));
          break;
        case 4:
          text.erase(at, 1 + random_.below(8));
          break;
        case 5:
          text.insert(at, kWords[random_.below(kWords.size())]);
          break;
        case 6:
          if (random_.below(8) == 0) text.resize(at);
          break;
        case 7:
          text.insert(at, text.substr(random_.below(text.size() + 1), random_.below(64)));
          break;
        default: {
          const std::string& other = corpus_[random_.below(size)];
          const std::string part =
              other.substr(random_.below(other.size() + 1), 1 + random_.below(64));
          text.replace(at, random_.below(part.size() + 1), part);
        }
      }
    }
    text.resize(std::min(text.size(), options_.max_len));
    return text;
  }

  Options options_;
  Shared& shared_;
  RandomSequence random_;
  std::vector<std::string> corpus_;
  std::array<std::uint8_t, kPlaces> seen_ = {};
  std::size_t sweep_ = 0;  // input whose bytes are swept
  std::size_t place_ = 0;  // 256 x its byte + value
};

/// Memory of a process in pages of RAM, in MiB.
std::size_t resident_mb(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  std::size_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) >> 20;
}

/// Waits for the child. Returns the kind of its finding, or "" when it ended well.
std::string wait_for(pid_t child, const Options& options) {
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (resident_mb(child) > options.rss_limit_mb) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return "memory";
    }
    usleep(20'000);
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return "timeout";
  return status == 0 ? "" : "crash";
}

int run_in_child(const Options& options) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  auto& shared = *static_cast<Shared*>(memory);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGALRM, SIG_DFL);
    auto engine = std::make_unique<Engine>(options, shared);
    engine->run();
    std::exit(0);
  }
  const std::string kind = wait_for(child, options);
  std::fprintf(stderr, "stat::number_of_executed_units: %lld\n",
               static_cast<long long>(shared.executions));
  std::fprintf(stderr, "stat::new_units_added: %lld\n", static_cast<long long>(shared.kept));
  if (kind.empty()) return 0;
  const std::string input(shared.input, shared.size);
  const std::string path = options.artifacts + kind + "-" + name_of(input);
  std::ofstream(path, std::ios::binary) << input;
  std::fprintf(stderr, "FINDING: %s; %zu bytes, saved as %s\n", kind.c_str(), input.size(),
               path.c_str());
  return 77;
}

}  // namespace
}  // namespace tessera::fuzz

int main(int argc, char** argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  return tessera::fuzz::run_in_child(tessera::fuzz::options_of(argc, argv));
}
