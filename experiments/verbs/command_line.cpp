#include "experiments/verbs/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "experiments/machine/terminal.hpp"
#include "experiments/verbs/help_text.hpp"
#include "formats/base/suggest.hpp"

namespace tessera::CLI {
namespace {

using Kind = OptionDescription::Kind;

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

/// The reason why a text is no number of this type; "" when it is one.
template <class Number>
std::string number_fault(const std::string& text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size() && error != std::errc::invalid_argument;
  if (whole && error == std::errc::result_out_of_range) return fmt::format("{} is too large", text);
  if (whole && error == std::errc()) {
    if constexpr (std::is_floating_point_v<Number>)
      if (!std::isfinite(value)) return fmt::format("expected a finite number, not '{}'", text);
    return "";
  }
  const char* expected = std::is_floating_point_v<Number> ? "a number"
                         : std::is_unsigned_v<Number>     ? "a whole number, not negative"
                                                          : "a whole number";
  return fmt::format("expected {}, not '{}'", expected, text);
}

/// The default as --help shows it; "" for none.
template <class T>
std::string fallback_text(const T& value) {
  if constexpr (IsOptional<T>::value)
    return value ? fallback_text(*value) : "";
  else if constexpr (std::is_floating_point_v<T>)
    return value == 0 || !std::isfinite(value) ? "" : fmt::format("{:g}", value);
  else if constexpr (std::is_arithmetic_v<T>)
    return value == 0 ? "" : fmt::format("{}", value);
  else if constexpr (std::is_same_v<T, std::string>)
    return value;
  else
    return "";
}

/// "--max-seconds" without its dashes.
std::string_view bare(std::string_view option) {
  return option.substr(std::min(option.find_first_not_of('-'), option.size()));
}

/// ", did you mean '--kernel'?", or nothing. Dashes do not count as right letters.
std::string option_suggestion(std::string_view given,
                              const std::deque<OptionDescription>& options) {
  std::vector<std::string> known;
  for (const OptionDescription& option : options)
    if (!option.positional)
      for (const std::string& name : option.names) known.emplace_back(bare(name));
  const std::string near = nearest_name(bare(given), known);
  if (near.empty()) return "";
  for (const OptionDescription& option : options)
    for (const std::string& name : option.names)
      if (!option.positional && bare(name) == near)
        return fmt::format(", did you mean '{}'?", name);
  return "";
}

/// A message of CLI11 in this program's words.
std::string plain_message(const ::CLI::ParseError& error, const OptionDescription* option) {
  const std::string what = error.what();
  const std::string subject = what.substr(0, what.find_first_of(": "));
  if (dynamic_cast<const ::CLI::RequiredError*>(&error) != nullptr)
    return option == nullptr
               ? "a command is missing"
               : fmt::format("{} is missing", option->positional
                                                  ? option->value
                                                  : option->names.back() + " " + option->value);
  if (dynamic_cast<const ::CLI::ArgumentMismatch*>(&error) != nullptr)
    return what.find("missing") != what.npos ? fmt::format("{} needs a value", subject)
                                             : fmt::format("{} is given more than once", subject);
  if (const std::size_t at = what.find(" excludes "); at != what.npos)
    return fmt::format("{} and {} cannot be given together", what.substr(0, at),
                       what.substr(at + 10));
  return what;
}

}  // namespace

// --- one option ----------------------------------------------------------------------------------

Option Option::required() {
  description_->required = true;
  return {option_->required(), description_};
}

Option Option::delimiter(char separator) {
  description_->separator = separator;
  return {option_->delimiter(separator), description_};
}

Option Option::allow_extra_args(bool allow) {
  description_->followed_by = allow;
  return {option_->allow_extra_args(allow), description_};
}

Option Option::excludes(const std::string& other) {
  return {option_->excludes(other), description_};
}

Option Option::takes(const std::string& value) {
  description_->value = value;
  return *this;
}

template <class Test>
Option Option::check_number(Test holds, const std::string& expected) {
  const auto fault = [holds, expected](const std::string& text) -> std::string {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && holds(value)) return "";
    return fmt::format("expected {}, not '{}'", expected, text);
  };
  return {option_->check(::CLI::Validator(fault, "")), description_};
}

Option Option::check(PositiveNumbers) {
  return check_number([](double value) { return value > 0; }, "a positive number");
}

Option Option::check(NonNegativeNumbers) {
  return check_number([](double value) { return value >= 0; }, "0 or a positive number");
}

Option Option::check(Range<int> range) { return check(Range<double>(range.min, range.max)); }

Option Option::check(Range<double> range) {
  return check_number([range](double value) { return value >= range.min && value <= range.max; },
                      fmt::format("a number from {:g} to {:g}", range.min, range.max));
}

Option Option::check(const IsMember& choices) {
  description_->choices = choices.allowed;
  const auto fault = [allowed = choices.allowed](const std::string& text) -> std::string {
    if (std::ranges::find(allowed, text) != allowed.end()) return "";
    return unknown_name_message("value", text, allowed);
  };
  return {option_->check(::CLI::Validator(fault, "")), description_};
}

// --- the declaration of a command ----------------------------------------------------------------

App::App(const std::string& description, const std::string& name)
    : root_(std::make_unique<::CLI::App>(description, name)),
      app_(root_.get()),
      described_{
          .path = name, .summary = description, .options = {}, .commands = {}, .examples = {}} {
  show_help_by_description();
}

App::App(::CLI::App* app, const std::string& path, const std::string& help)
    : app_(app),
      described_{.path = path, .summary = help, .options = {}, .commands = {}, .examples = {}} {
  show_help_by_description();
}

App::~App() = default;

void App::show_help_by_description() {
  app_->set_help_flag("-h,--help", "this text");
  describe_option("-h,--help", "print this text and exit", Kind::kFlag);
  app_->formatter_fn([this](const ::CLI::App*, const std::string&, ::CLI::AppFormatMode) {
    return help_text(description(), width_of(stdout));
  });
}

OptionDescription* App::describe_option(const std::string& names, const std::string& help,
                                        Kind kind) {
  OptionDescription& option = options_.emplace_back();
  option.help = help;
  option.kind = kind;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    option.names.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  option.positional = !names.starts_with('-');
  if (kind == Kind::kFlag) return &option;
  option.value = bare(option.names.back());
  std::ranges::transform(option.value, option.value.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return &option;
}

template <class T>
Option App::add_option(const std::string& name, T& variable, const std::string& help) {
  using Value = typename std::conditional_t<IsOptional<T>::value, T, std::optional<T>>::value_type;
  constexpr Kind kind = std::is_arithmetic_v<Value> ? Kind::kNumber : Kind::kText;
  OptionDescription* described = describe_option(name, help, kind);
  described->repeated = described->followed_by = std::is_same_v<T, std::vector<std::string>>;
  if (help.find("default") == help.npos) described->fallback = fallback_text(variable);
  ::CLI::Option* option = app_->add_option(name, variable, help);
  if constexpr (std::is_arithmetic_v<Value>)
    option->check(
        ::CLI::Validator([](const std::string& text) { return number_fault<Value>(text); }, ""));
  return {option, described};
}

template Option App::add_option(const std::string&, std::string&, const std::string&);
template Option App::add_option(const std::string&, std::optional<std::string>&,
                                const std::string&);
template Option App::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option App::add_option(const std::string&, int&, const std::string&);
template Option App::add_option(const std::string&, std::int64_t&, const std::string&);
template Option App::add_option(const std::string&, std::optional<std::int64_t>&,
                                const std::string&);
template Option App::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option App::add_option(const std::string&, double&, const std::string&);

Option App::add_flag(const std::string& name, bool& variable, const std::string& help) {
  OptionDescription* described = describe_option(name, help, Kind::kFlag);
  return {app_->add_flag(name, variable, help), described};
}

App* App::add_subcommand(const std::string& name, const std::string& help) {
  App* added = new App(app_->add_subcommand(name, help), described_.path + " " + name, help);
  return subcommands_.emplace_back(added).get();
}

void App::require_subcommand(int count) { app_->require_subcommand(count); }

void App::callback(std::function<void()> action) { app_->callback(std::move(action)); }

void App::set_version_flag(const std::string& name, std::function<std::string()> version) {
  app_->set_version_flag(name, std::move(version));
  describe_option(name, "print version and commit and exit", Kind::kFlag);
}

void App::footer(const std::string& text) { described_.footer = text; }

void App::example(const std::string& command, const std::string& effect) {
  described_.examples.push_back({command, effect});
}

CommandDescription App::description() const {
  CommandDescription all = described_;
  all.options.assign(options_.begin(), options_.end());
  for (const auto& subcommand : subcommands_) all.commands.push_back(subcommand->description());
  return all;
}

// --- reading the command line --------------------------------------------------------------------

/// The fault in the first word that nobody takes, which a misspelt name is; "" when there is none.
std::string App::fault_of_extras() const {
  const std::vector<std::string> extras = app_->remaining();
  if (extras.empty()) return "";
  const std::string word = extras.front().substr(0, extras.front().find('='));
  if (word.starts_with('-')) {
    return fmt::format("unknown option '{}'{}", word, option_suggestion(word, options_));
  }
  if (subcommands_.empty()) return fmt::format("'{}' is one argument too many", extras.front());
  std::vector<std::string> names;
  for (const auto& subcommand : subcommands_) names.push_back(subcommand->described_.name());
  return unknown_name_message(root_ ? "verb" : "command", word, names);
}

std::optional<bool> App::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const ::CLI::Success& wanted) {  // --help, --version
    return app_->exit(wanted) == 0;
  } catch (const ::CLI::ParseError& error) {
    // A misspelt name is the cause of whatever else is amiss.
    std::string message;
    const App* given = this;  // the innermost sub-command that was given
    for (const App* next = this; next != nullptr;) {
      given = next;
      if (message = given->fault_of_extras(); !message.empty()) break;
      next = nullptr;
      for (const auto& subcommand : given->subcommands_)
        if (subcommand->app_->parsed()) next = subcommand.get();
    }
    if (message.empty()) {
      const std::string what = error.what();
      const auto named = std::ranges::find_if(given->options_, [&](const OptionDescription& one) {
        return std::ranges::any_of(
            one.names, [&](const std::string& name) { return what.starts_with(name + " "); });
      });
      message = plain_message(error, named == given->options_.end() ? nullptr : &*named);
    }
    say_error(message);
    fmt::print(stderr, "see `{} --help`\n", given->described_.path);
    return false;
  }
}

std::string App::chosen() const { return app_->get_subcommands().front()->get_name(); }

}  // namespace tessera::CLI
