#include "experiments/verbs/value_lists.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMostValues = 1000;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string_view> parts_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

/// Throws an Error for a range that is none.
std::vector<std::int64_t> range_values(std::string_view option, std::string_view text) {
  const auto parts = parts_at(text, ':');
  const auto refuse = [&] {
    throw Error(fmt::format(
        "{} {}: a number, or a range FROM:TO:STEP, was expected, as in 32:512:*2 or 32:128:+32",
        option, text));
  };
  if (parts.size() != 3) refuse();
  const bool doubles = parts[2].starts_with('*');
  const bool signed_step = doubles || parts[2].starts_with('+');
  const auto from = number_of<std::int64_t>(parts[0]), to = number_of<std::int64_t>(parts[1]);
  const auto step = number_of<std::int64_t>(parts[2].substr(signed_step ? 1 : 0));
  if (!from || !to || !step) refuse();
  require(*step >= (doubles ? 2 : 1), "{} {}: with the step {} the range has no end", option, text,
          parts[2]);
  require(*from >= 1 && *from <= *to, "{} {}: a range goes up, from 1 or more", option, text);
  std::vector<std::int64_t> values;
  // The largest value that has a next one is compared by division, so that nothing overflows.
  for (std::int64_t value = *from;; value = doubles ? value * *step : value + *step) {
    values.push_back(value);
    require(values.size() <= kMostValues, "{} {}: more than {} values", option, text, kMostValues);
    if (doubles ? value > *to / *step : value > *to - *step) return values;
  }
}

}  // namespace

std::vector<std::string> split_values(std::string_view option, std::string_view text) {
  std::vector<std::string> values;
  int depth = 0;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (!quoted) depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    const bool ends = i >= text.size() || (c == ',' && depth <= 0 && !quoted);
    if (!ends) continue;
    const std::string_view part = trimmed(text.substr(begin, std::min(i, text.size()) - begin));
    require(!part.empty(), "{} {}: a value is missing", option, text);
    values.emplace_back(part);
    begin = i + 1;
  }
  return values;
}

std::vector<std::string> split_values(std::string_view option,
                                      const std::vector<std::string>& texts) {
  std::vector<std::string> values;
  for (const std::string& text : texts)
    for (std::string& value : split_values(option, text)) values.push_back(std::move(value));
  return values;
}

std::vector<std::int64_t> integer_values(std::string_view option, std::string_view text) {
  std::vector<std::int64_t> values;
  for (const std::string_view part : parts_at(text, ',')) {
    const auto single = number_of<std::int64_t>(part);
    require(!single || *single >= 1, "{} {}: 1 or more was expected, not {}", option, text, part);
    for (const std::int64_t value : single ? std::vector{*single} : range_values(option, part))
      if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  return values;
}

Json plain_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto integer = number_of<std::int64_t>(text)) return *integer;
  if (const auto number = number_of<double>(text)) return *number;
  return text;
}

Settings where_values(const std::string& option, const std::vector<std::string>& texts) {
  Settings where;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    require(equals != std::string::npos && equals > 0,
            "{} {}: COLUMN=VALUE was expected, as in kernel=csr_spmm", option, text);
    const std::string column = text.substr(0, equals);
    Setting& setting = where[column];
    if (setting.value.is_null()) setting = {Json::array(), option + " " + column};
    for (const std::string& value : split_values(option, text.substr(equals + 1)))
      setting.value.push_back(plain_value(value));
  }
  return where;
}

}  // namespace tessera
