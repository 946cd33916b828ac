// The program's command line with all registered verbs on it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "experiments/verbs/verb.hpp"

namespace tessera {

class Program {
 public:
  /// Makes and declares every registered verb.
  Program();

  /// Everything that can be typed.
  CommandDescription description() const { return app_.description(); }

  /// Reads the command line and runs the verb that it names. Returns the exit code; throws what
  /// the verb throws.
  int run(int argc, const char* const* argv);

 private:
  CLI::App app_;
  std::map<std::string, std::unique_ptr<Verb>> verbs_;
};

/// "tessera 0.1.0 (commit 1234567)".
std::string version_text();

/// The main function: runs the command line, prints errors to stderr and returns the exit code.
int program_main(int argc, const char* const* argv) noexcept;

}  // namespace tessera
