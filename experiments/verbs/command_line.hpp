// The options, flags and sub-commands that verbs declare: the part of CLI11 in use, under its
// names.
//
// CLI11 defines all of itself in its header, which costs five seconds of compiling in every file
// that reads it. Here it is compiled once, in command_line.cpp. What is declared is also kept as
// data (command_description.hpp), from which --help, man pages and completion are made.
#pragma once

#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/verbs/command_description.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tessera::CLI {

/// Restrictions of an option's value; a value that violates one is a usage error.
struct PositiveNumbers {};
struct NonNegativeNumbers {};
inline constexpr PositiveNumbers PositiveNumber;
inline constexpr NonNegativeNumbers NonNegativeNumber;
template <class Number>
struct Range {
  Number min, max;  // both allowed
  Range(Number smallest, Number largest) : min(smallest), max(largest) {}
};
struct IsMember {
  std::vector<std::string> allowed;
  template <class Names>
  explicit IsMember(const Names& names) : allowed(names.begin(), names.end()) {}
  IsMember(std::initializer_list<std::string> names) : allowed(names) {}
};

/// One declared option or flag. Calls chain: `app.add_option(...)->required()->delimiter(',')`.
class Option {
 public:
  Option(::CLI::Option* option, OptionDescription* description)
      : option_(option), description_(description) {}
  Option* operator->() { return this; }

  Option required();
  Option delimiter(char separator);  // "a,b" gives two values
  Option allow_extra_args(bool allow);
  Option excludes(const std::string& other);  // an error when both are given
  /// What stands for the value in --help, instead of the option's name in capitals. Completion
  /// knows the values by it (known_values.hpp): KERNEL, MATRIX, FILE.
  Option takes(const std::string& value);
  Option check(PositiveNumbers);
  Option check(NonNegativeNumbers);
  Option check(Range<int> range);
  Option check(Range<double> range);
  Option check(const IsMember& choices);

 private:
  template <class Test>
  Option check_number(Test holds, const std::string& expected);

  ::CLI::Option* option_;           // owned by its App
  OptionDescription* description_;  // owned by its App
};

/// The program's command line, or one sub-command of it.
class App {
 public:
  /// The program itself.
  App(const std::string& description, const std::string& name);
  ~App();
  App(App&&) = delete;

  /// Binds an option to a variable, which has to outlive parse(). T: std::string, a vector of them,
  /// an optional one, int, std::int64_t, an optional one, std::uint64_t or double. The variable's
  /// value, unless it is empty, 0 or infinite, is the default that --help shows; a help text that
  /// tells the default itself is left as it is.
  template <class T>
  Option add_option(const std::string& name, T& variable, const std::string& help);
  Option add_flag(const std::string& name, bool& variable, const std::string& help);

  App* add_subcommand(const std::string& name, const std::string& help);  // owned by this App
  void require_subcommand(int count);
  void callback(std::function<void()> action);  // runs when this sub-command was given

  void set_version_flag(const std::string& name, std::function<std::string()> version);
  void footer(const std::string& text);                                 // of the program's --help
  void example(const std::string& command, const std::string& effect);  // at the end of --help

  /// Everything declared so far, with all sub-commands.
  CommandDescription description() const;

  /// Reads the command line. Empty when a sub-command is to be run; otherwise true after --help or
  /// --version, and false after a usage error, which has been printed: one line that has the
  /// nearest known name for a misspelt one, and a hint to --help.
  std::optional<bool> parse(int argc, const char* const* argv);
  /// The name of the sub-command that was given; only after parse().
  std::string chosen() const;

 private:
  explicit App(::CLI::App* app, const std::string& path, const std::string& help);

  OptionDescription* describe_option(const std::string& names, const std::string& help,
                                     OptionDescription::Kind kind);
  void show_help_by_description();
  std::string fault_of_extras() const;

  std::unique_ptr<::CLI::App> root_;  // of the program itself; empty in sub-commands
  ::CLI::App* app_;
  CommandDescription described_;           // but for options and sub-commands, which are here:
  std::deque<OptionDescription> options_;  // stay where they are while more are declared
  std::deque<std::unique_ptr<App>> subcommands_;
};

}  // namespace tessera::CLI
