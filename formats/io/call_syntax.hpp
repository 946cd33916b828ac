// "name(key=value, key=value)": the notation of a variant and its parameters as one word.
//
// A value is everything up to the next comma or the closing bracket; brackets inside it must match,
// so that a value may be a call itself. A value with other commas or brackets, or with blanks at
// its ends, stands in double quotes, where \" is a quote and \\ a backslash.
#pragma once

#include <string>
#include <string_view>

#include "formats/base/params.hpp"

namespace tessera {

struct Call {
  std::string name;
  Params::Given given;  // the values as text, without their quotes
};

/// Parses a call; "name" alone is a call without parameters. Throws an Error that quotes the text
/// and marks the wrong character.
Call parse_call(std::string_view text);

/// A value as it must be written inside a call: quoted when its characters require it.
std::string quote_value(std::string_view value);

/// The text of a call, which parse_call() reads back; the name alone without parameters. `params`
/// maps names to values.
template <class Values>
std::string call_text(std::string_view name, const Values& params) {
  std::string text;
  for (const auto& [key, value] : params) {
    text += text.empty() ? "(" : ", ";
    text += key + "=" + quote_value(to_text(value));
  }
  return std::string(name) + (text.empty() ? "" : text + ")");
}

}  // namespace tessera
