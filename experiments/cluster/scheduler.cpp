#include "experiments/cluster/scheduler.hpp"

#include <fmt/format.h>

#include "experiments/cluster/shell.hpp"

namespace tessera {

std::string ranges_text(const std::vector<int>& ascending) {
  std::string text;
  for (std::size_t first = 0; first < ascending.size();) {
    std::size_t last = first;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    text += text.empty() ? "" : ",";
    text += last == first ? fmt::format("{}", ascending[first])
                          : fmt::format("{}-{}", ascending[first], ascending[last]);
    first = last + 1;
  }
  return text;
}

std::string script_text(const std::string& directives, const std::vector<std::string>& setup,
                        const std::vector<std::string>& command, const std::string& rest,
                        bool always_succeeds) {
  std::string text = "#!/bin/bash\n" + directives + "# `tessera submit` wrote this file.\n";
  for (const std::string& line : setup) text += line + "\n";
  // Without a shell in between, a signal of the scheduler reaches the program.
  text += (always_succeeds ? "" : "exec ") + shell_line(command) + rest + "\n";
  return text + (always_succeeds ? "exit 0\n" : "");
}

}  // namespace tessera
