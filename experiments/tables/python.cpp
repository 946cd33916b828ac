#include "experiments/tables/python.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "formats/base/check.hpp"

extern char** environ;

namespace tessera {
namespace {

constexpr int kNewestPython = 30, kOldestPython = 11;  // of 3.N

}  // namespace

std::string find_python() {
  if (const char* chosen = std::getenv("TESSERA_PYTHON"); chosen != nullptr && *chosen != '\0')
    return chosen;
  const char* path = std::getenv("PATH");
  std::istringstream folders((path == nullptr ? std::string() : path) + ":/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::vector<std::string> names{"python3"};
    for (int minor = kNewestPython; minor >= kOldestPython; --minor)
      names.push_back(fmt::format("python3.{}", minor));
    for (const std::string& name : names)
      if (const std::string file = folder + "/" + name; access(file.c_str(), X_OK) == 0)
        return file;
  }
  throw Error(
      "this needs Python 3.11 or newer, and there is no python3 on the PATH: install it (Debian, "
      "Ubuntu: apt-get install python3 python3-matplotlib), or name one in $TESSERA_PYTHON");
}

int run_program(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, 2, 1);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  require(failed == 0, "{} cannot be started", arguments.front());
  int status = 0;
  waitpid(child, &status, 0);
  require(WIFEXITED(status), "{} was killed", fmt::join(arguments, " "));
  return WEXITSTATUS(status);
}

}  // namespace tessera
