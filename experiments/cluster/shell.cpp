#include "experiments/cluster/shell.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "formats/base/check.hpp"

namespace tessera {

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./,:=@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_word(word);
  }
  return line;
}

CommandOutput run_command(const std::vector<std::string>& words) {
  std::fflush(nullptr);
  std::FILE* const pipe = popen((shell_line(words) + " </dev/null").c_str(), "r");
  require(pipe != nullptr, "{}: cannot be started", words.front());
  CommandOutput output;
  std::array<char, 4096> part{};
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe))
    output.text.append(part.data(), got);
  const int status = pclose(pipe);
  output.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

std::string output_of_command(const std::vector<std::string>& words) {
  CommandOutput output = run_command(words);
  require(output.exit == 0, "`{}` failed with exit code {}{}{}", shell_line(words), output.exit,
          output.text.empty() ? "" : ": ", output.text);
  return std::move(output.text);
}

bool is_on_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace tessera
