#include "experiments/verbs/help_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tessera {
namespace {

constexpr std::size_t kIndent = 26;  // columns before the meaning of an option

/// The words of a text in lines of at most `width` columns, the first of which has room for less.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width,
                    std::size_t column) {
  std::string lines;
  std::size_t place = 0;
  bool starts_line = true;
  while (place < text.size()) {
    const std::size_t end = std::min(text.find(' ', place), text.size());
    const std::string word = text.substr(place, end - place);
    if (!starts_line && column + 1 + word.size() > width) {
      lines += '\n';
      lines.append(indent, ' ');
      column = indent;
    } else if (!starts_line) {
      lines += ' ';
      ++column;
    }
    lines += word;
    starts_line = false;
    column += word.size();
    place = end + 1;
  }
  return lines;
}

/// The paragraphs of a text, between which it has empty lines, each with an empty line above.
std::string paragraphs(const std::string& text, std::size_t width) {
  constexpr std::string_view kBreak = "\n\n";
  std::string all;
  for (std::size_t place = 0; place < text.size();) {
    const std::size_t end = std::min(text.find(kBreak, place), text.size());
    all += fmt::format("\n{}\n", wrapped(text.substr(place, end - place), 0, width, 0));
    place = end + kBreak.size();
  }
  return all;
}

/// A heading with its meaning beside it, or below it where it is long.
std::string entry(const std::string& heading, const std::string& meaning, std::size_t width) {
  const std::string head = fmt::format("  {}", heading);
  const std::string text = wrapped(meaning, kIndent, std::max(width, kIndent + 30), kIndent);
  if (head.size() + 2 <= kIndent) return fmt::format("{:{}}{}\n", head, kIndent, text);
  return fmt::format("{}\n{:{}}{}\n", head, "", kIndent, text);
}

std::string entries(const CommandDescription& command, bool positional, std::size_t width) {
  std::string text;
  for (const OptionDescription& option : command.options)
    if (option.positional == positional)
      text += entry(option_heading(option), option_meaning(option), width);
  if (text.empty()) return text;
  return fmt::format("\n{}:\n{}", positional ? "Arguments" : "Options", text);
}

}  // namespace

std::string usage_text(const CommandDescription& command) {
  std::string text = command.path;
  for (const OptionDescription& option : command.options)
    if (option.required && !option.positional)
      text += fmt::format(" {} {}", option.names.back(), option.value);
  text += " [OPTIONS]";
  for (const OptionDescription& option : command.options)
    if (option.positional)
      text += option.required ? fmt::format(" {}", option_heading(option))
                              : fmt::format(" [{}]", option_heading(option));
  if (!command.commands.empty()) text += " COMMAND ...";
  return text;
}

std::string option_heading(const OptionDescription& option) {
  if (option.positional) return fmt::format("{}{}", option.value, option.repeated ? "..." : "");
  std::string text = fmt::format("{}", fmt::join(option.names, ", "));
  if (option.value.empty()) return text;
  text += fmt::format(" {}", option.value);
  if (option.separator != '\0') return fmt::format("{}[{}...]", text, option.separator);
  return fmt::format("{}{}", text, option.followed_by ? "..." : "");
}

std::string option_meaning(const OptionDescription& option) {
  std::string text = option.help;
  if (!option.choices.empty()) text += fmt::format(": {}", fmt::join(option.choices, ", "));
  if (option.repeated && !option.positional && !option.followed_by && option.separator == '\0')
    text += " (may be given several times)";
  if (!option.fallback.empty() && text.ends_with(')'))
    text = fmt::format("{}; default {})", text.substr(0, text.size() - 1), option.fallback);
  else if (!option.fallback.empty())
    text += fmt::format(" (default {})", option.fallback);
  if (option.required && !option.positional) text += " (required)";
  return text;
}

std::string help_text(const CommandDescription& command, int width) {
  const auto columns = static_cast<std::size_t>(std::max(width, 40));
  std::string text =
      fmt::format("{}\n\nUsage: {}\n{}{}",
                  wrapped(fmt::format("{}: {}", command.path, command.summary), 0, columns, 0),
                  wrapped(usage_text(command), 7, columns, 7), entries(command, true, columns),
                  entries(command, false, columns));
  if (!command.commands.empty()) text += "\nCommands:\n";
  for (const CommandDescription& one : command.commands)
    text += entry(one.name(), one.summary, columns);
  if (!command.examples.empty()) text += "\nExamples:\n";
  for (const Example& example : command.examples)
    text += fmt::format("    {}\n        {}\n", example.command, example.effect);
  if (!command.footer.empty()) text += paragraphs(command.footer, columns);
  return text;
}

}  // namespace tessera
