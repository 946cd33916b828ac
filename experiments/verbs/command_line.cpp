#include "experiments/verbs/command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <utility>

namespace tessera::CLI {

Option Option::required() { return Option(option_->required()); }

Option Option::delimiter(char separator) { return Option(option_->delimiter(separator)); }

Option Option::allow_extra_args(bool allow) { return Option(option_->allow_extra_args(allow)); }

Option Option::excludes(const std::string& other) { return Option(option_->excludes(other)); }

Option Option::capture_default_str() { return Option(option_->capture_default_str()); }

Option Option::check(PositiveNumbers) { return Option(option_->check(::CLI::PositiveNumber)); }

Option Option::check(NonNegativeNumbers) {
  return Option(option_->check(::CLI::NonNegativeNumber));
}

Option Option::check(Range<int> range) {
  return Option(option_->check(::CLI::Range(range.min, range.max)));
}

Option Option::check(Range<double> range) {
  return Option(option_->check(::CLI::Range(range.min, range.max)));
}

Option Option::check(const IsMember& choices) {
  return Option(option_->check(::CLI::IsMember(choices.allowed)));
}

App::App(const std::string& description, const std::string& name)
    : root_(std::make_unique<::CLI::App>(description, name)), app_(root_.get()) {}

App::App(::CLI::App* app) : app_(app) {}

App::~App() = default;

template <class T>
Option App::add_option(const std::string& name, T& variable, const std::string& help) {
  return Option(app_->add_option(name, variable, help));
}

template Option App::add_option(const std::string&, std::string&, const std::string&);
template Option App::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option App::add_option(const std::string&, int&, const std::string&);
template Option App::add_option(const std::string&, std::int64_t&, const std::string&);
template Option App::add_option(const std::string&, std::optional<std::int64_t>&,
                                const std::string&);
template Option App::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option App::add_option(const std::string&, double&, const std::string&);

Option App::add_flag(const std::string& name, bool& variable, const std::string& help) {
  return Option(app_->add_flag(name, variable, help));
}

App* App::add_subcommand(const std::string& name, const std::string& help) {
  return subcommands_.emplace_back(new App(app_->add_subcommand(name, help))).get();
}

void App::require_subcommand(int count) { app_->require_subcommand(count); }

void App::callback(std::function<void()> action) { app_->callback(std::move(action)); }

void App::set_version_flag(const std::string& name, std::function<std::string()> version) {
  app_->set_version_flag(name, std::move(version));
}

void App::footer(const std::string& text) { app_->footer(text); }

std::optional<bool> App::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const ::CLI::ParseError& error) {
    return app_->exit(error) == 0;
  }
  return std::nullopt;
}

std::string App::chosen() const { return app_->get_subcommands().front()->get_name(); }

}  // namespace tessera::CLI
