#include "experiments/verbs/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "experiments/machine/machine.hpp"
#include "experiments/machine/terminal.hpp"
#include "formats/base/check.hpp"
#include "formats/base/or_out_of_memory.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

/// Occupies the standard streams that the caller has closed: the first files that the program opens
/// would get their numbers, and what it prints. A write to such a stream is an error.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace

Program::Program()
    : app_("a research testbed for sparse matrix products on tensor cores", "tessera") {
  app_.require_subcommand(1);
  app_.set_version_flag("--version", version_text);
  std::string codes;
  for (const ExitCodeMeaning& one : kExitCodes)
    codes +=
        fmt::format("{}{} {}", codes.empty() ? "" : "; ", static_cast<int>(one.code), one.meaning);
  app_.footer(fmt::format("Exit codes: {}.", codes));
  app_.example("tessera multiply 'rmat(scale=12)' --n 64",
               "one product by the kernel that is predicted to be fastest, checked");
  app_.example("tessera run quickstart", "a shipped experiment, and its table");
  for (const auto& [name, entry] : Registry<Verb>::instance().entries()) {
    const auto verb = verbs_.emplace(name, entry.make({})).first;
    verb->second->declare(*app_.add_subcommand(name, entry.summary));
  }
}

int Program::run(int argc, const char* const* argv) {
  if (const std::optional<bool> done = app_.parse(argc, argv)) return *done ? kOk : kUsage;
  // What is large says itself what did not fit; this is for the rest.
  return or_out_of_memory([&] { return verbs_.at(app_.chosen())->run(); },
                          [&] {
                            return fmt::format(
                                "this machine has too little memory for `tessera {}`",
                                fmt::join(argv + 1, argv + argc, " "));
                          });
}

std::string version_text() {
  const Json build = build_description();
  return fmt::format("tessera {} (commit {}{})", build["version"].get<std::string>(),
                     build["commit"].get<std::string>(), build["dirty"] ? "+changes" : "");
}

int program_main(int argc, const char* const* argv) noexcept {
  occupy_closed_streams();
  try {
    const int code = Program().run(argc, argv);
    try {
      finish_stdout();
    } catch (const Error& error) {
      say_error(error.what());
      return kFailed;
    }
    return code;
  } catch (const OutOfMemory& error) {
    say_error(error.what());
    return kFailed;
  } catch (const Error& error) {
    say_error(error.what());
    return kUsage;
  } catch (const std::exception& error) {
    say_error(error.what());
    return kFailed;
  }
}

}  // namespace tessera
