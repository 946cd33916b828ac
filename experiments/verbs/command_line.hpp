// The options, flags and sub-commands that verbs declare: the part of CLI11 in use, under its
// names.
//
// CLI11 defines all of itself in its header, which costs five seconds of compiling in every file
// that reads it. Here it is compiled once, in command_line.cpp.
#pragma once

#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  explicit Option(::CLI::Option* option) : option_(option) {}
  Option* operator->() { return this; }

  Option required();
  Option delimiter(char separator);  // "a,b" gives two values
  Option allow_extra_args(bool allow);
  Option excludes(const std::string& other);  // an error when both are given
  Option capture_default_str();               // --help shows the variable's present value
  Option check(PositiveNumbers);
  Option check(NonNegativeNumbers);
  Option check(Range<int> range);
  Option check(Range<double> range);
  Option check(const IsMember& choices);

 private:
  ::CLI::Option* option_;  // owned by its App
};

/// The program's command line, or one sub-command of it.
class App {
 public:
  /// The program itself.
  App(const std::string& description, const std::string& name);
  ~App();
  App(App&&) = delete;

  /// Binds an option to a variable, which has to outlive parse(). T: std::string, a vector of them,
  /// int, std::int64_t, an optional one, std::uint64_t or double.
  template <class T>
  Option add_option(const std::string& name, T& variable, const std::string& help);
  Option add_flag(const std::string& name, bool& variable, const std::string& help);

  App* add_subcommand(const std::string& name, const std::string& help);  // owned by this App
  void require_subcommand(int count);
  void callback(std::function<void()> action);  // runs when this sub-command was given

  void set_version_flag(const std::string& name, std::function<std::string()> version);
  void footer(const std::string& text);  // of --help

  /// Reads the command line. Empty when a sub-command is to be run; otherwise true after --help or
  /// --version, and false after a usage error, which has been printed.
  std::optional<bool> parse(int argc, char** argv);
  /// The name of the sub-command that was given; only after parse().
  std::string chosen() const;

 private:
  explicit App(::CLI::App* app);

  std::unique_ptr<::CLI::App> root_;  // of the program itself; empty in sub-commands
  ::CLI::App* app_;
  std::deque<std::unique_ptr<App>> subcommands_;
};

}  // namespace tessera::CLI
