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

}  // namespace tessera
