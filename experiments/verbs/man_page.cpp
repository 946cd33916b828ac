#include "experiments/verbs/man_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "experiments/verbs/help_text.hpp"

namespace tessera {
namespace {

/// A text as roff reads it back: its special characters escaped, no line a request.
std::string escaped(const std::string& text) {
  std::string roff;
  for (const char c : text) {
    const bool starts_line = roff.empty() || roff.back() == '\n';
    if (starts_line && (c == '.' || c == '\'')) roff += "\\&";
    switch (c) {
      case '\\':
        roff += "\\e";
        break;
      case '-':
        roff += "\\-";
        break;
      case '\'':
        roff += "\\(aq";
        break;
      case '`':
        roff += "\\(ga";
        break;
      case '^':
        roff += "\\(ha";
        break;
      case '~':
        roff += "\\(ti";
        break;
      default:
        roff += c;
    }
  }
  return roff;
}

std::string in_capitals(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string entries(const CommandDescription& command, bool positional) {
  std::string page;
  for (const OptionDescription& option : command.options)
    if (option.positional == positional)
      page += fmt::format(".TP\n.B {}\n{}\n", escaped(option_heading(option)),
                          escaped(option_meaning(option)));
  return page;
}

std::string synopsis(const CommandDescription& command) {
  const std::string usage = usage_text(command);
  return fmt::format(".B {}\n{}\n", escaped(command.path),
                     escaped(usage.substr(command.path.size() + 1)));
}

/// A sub-command within its verb's page.
std::string subcommand(const CommandDescription& command) {
  return fmt::format(".SS {}\n{}.PP\n{}\n", escaped(command.name()), synopsis(command),
                     escaped(command.summary)) +
         entries(command, true) + entries(command, false);
}

std::string examples(const CommandDescription& command) {
  std::string page;
  for (const Example& example : command.examples)
    page += fmt::format(".TP\n.B {}\n{}\n", escaped(example.command), escaped(example.effect));
  for (const CommandDescription& one : command.commands)
    if (one.path.find(' ') != one.path.rfind(' ')) page += examples(one);
  return page;
}

std::string section(const char* title, const std::string& text) {
  return text.empty() ? "" : fmt::format(".SH {}\n{}", title, text);
}

}  // namespace

std::string man_page_name(const CommandDescription& command) {
  std::string name = command.path;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string man_page(const CommandDescription& command, const ManualFacts& facts) {
  const std::string name = man_page_name(command);
  const bool is_program = command.path.find(' ') == command.path.npos;
  std::string page = fmt::format(".TH {} 1 {} \"tessera {}\" \"tessera manual\"\n",
                                 escaped(in_capitals(name)), facts.date, facts.version);
  page += section("NAME", fmt::format("{} \\- {}\n", escaped(name), escaped(command.summary)));
  page += section("SYNOPSIS", synopsis(command));
  page += section("ARGUMENTS", entries(command, true));
  page += section("OPTIONS", entries(command, false));
  std::string commands;
  for (const CommandDescription& one : command.commands)
    commands += is_program
                    ? fmt::format(".TP\n.B {}\n{}\n", escaped(one.name()), escaped(one.summary))
                    : subcommand(one);
  page += section("COMMANDS", commands);
  page += section("EXAMPLES", examples(command));
  if (!is_program && !command.footer.empty())
    page += section("NOTES", escaped(command.footer) + "\n");
  page += section("EXIT STATUS", escaped(facts.footer) + "\n");
  std::string others;
  for (const CommandDescription& one : command.commands)
    if (is_program)
      others +=
          fmt::format("{}.BR {} (1)", others.empty() ? "" : " ,\n", escaped(man_page_name(one)));
  return page + section("SEE ALSO", (is_program ? others : ".BR tessera (1)") + "\n");
}

}  // namespace tessera
