// What a verb declares on the command line, as data: --help, the man pages and the shells'
// completion are three renderings of it, so that none of them can say something else.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// An option, a flag or a positional argument.
struct OptionDescription {
  enum class Kind { kFlag, kNumber, kText };

  std::vector<std::string> names;  // "-h" and "--help"; of a positional argument its VALUE
  std::string help;                // meaning and unit
  Kind kind = Kind::kText;
  std::string value;                      // what stands for the value, in capitals; "" for a flag
  std::string fallback = {};              // the default, as a user would write it; "" for none
  std::vector<std::string> choices = {};  // the only values allowed; empty: any
  bool positional = false;
  bool required = false;
  bool repeated = false;     // takes several values
  char separator = '\0';     // between several values of one word; 0: none
  bool followed_by = false;  // several values may stand in a row: --only A B
};

struct Example {
  std::string command;  // as typed, without a prompt
  std::string effect;   // what it does, in a few words
};

/// The program, a verb, or a sub-command of a verb.
struct CommandDescription {
  std::string path;     // as typed: "tessera matrix info"
  std::string summary;  // one line
  std::vector<OptionDescription> options;
  std::vector<CommandDescription> commands;
  std::vector<Example> examples;
  std::string footer = {};  // of the program: exit codes

  /// The last word of the path.
  std::string name() const { return path.substr(path.rfind(' ') + 1); }
};

}  // namespace tessera
