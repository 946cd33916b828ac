// Commands of the shell: quoted for a script, and run for their output.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// A word as the shell reads it back: unchanged where it has plain characters only, else in single
/// quotes.
std::string shell_word(const std::string& word);

/// The words of a command in one line.
std::string shell_line(const std::vector<std::string>& words);

struct CommandOutput {
  int exit = 0;      // 128 and more: killed by a signal
  std::string text;  // stdout; stderr is this program's
};

/// Runs a command and waits for its end.
CommandOutput run_command(const std::vector<std::string>& words);

/// The same, for one that has to succeed. Throws an Error with the command and its exit code.
std::string output_of_command(const std::vector<std::string>& words);

/// True when the PATH has a program of that name.
bool is_on_path(const std::string& program);

}  // namespace tessera
