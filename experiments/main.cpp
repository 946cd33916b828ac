// tessera: the command line. Every verb registers itself from experiments/verbs/.

#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "experiments/machine/machine.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/registry.hpp"

namespace {

using namespace tessera;

int run_command_line(int argc, char** argv) {
  tessera::CLI::App app("A research testbed for sparse matrix products on tensor cores.",
                        "tessera");
  app.require_subcommand(1);
  app.set_version_flag("--version", [] {
    const Json build = build_description();
    return fmt::format("tessera {} (commit {}{})", build["version"].get<std::string>(),
                       build["commit"].get<std::string>(), build["dirty"] ? "+changes" : "");
  });
  app.footer(
      "Exit codes: 0 ok, 2 usage or input error, 3 some points failed, 4 wrong numbers,\n"
      "5 a required device or feature is missing, 6 an expectation violated, "
      "130 interrupted.");

  std::map<std::string, std::unique_ptr<Verb>> verbs;
  for (const auto& [name, entry] : Registry<Verb>::instance().entries()) {
    const auto verb = verbs.emplace(name, entry.make({})).first;
    verb->second->declare(*app.add_subcommand(name, entry.summary));
  }
  if (const std::optional<bool> done = app.parse(argc, argv)) return *done ? kOk : kUsage;
  return verbs.at(app.chosen())->run();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_command_line(argc, argv);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kFailed;
  }
}
