#include "experiments/verbs/program.hpp"

#include <fmt/format.h>

#include "experiments/machine/machine.hpp"
#include "formats/base/registry.hpp"

namespace tessera {

Program::Program()
    : app_("a research testbed for sparse matrix products on tensor cores", "tessera") {
  app_.require_subcommand(1);
  app_.set_version_flag("--version", [] {
    const Json build = build_description();
    return fmt::format("tessera {} (commit {}{})", build["version"].get<std::string>(),
                       build["commit"].get<std::string>(), build["dirty"] ? "+changes" : "");
  });
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
  return verbs_.at(app_.chosen())->run();
}

}  // namespace tessera
