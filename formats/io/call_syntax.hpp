// "name(key=value, key=value)": how a variant and its parameters are written as one word.
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
  Params::Given given;  // the values as text, quotes removed
};

/// Reads a call; "name" alone is one without parameters. Throws an Error that quotes the text and
/// points at the character that is wrong.
Call parse_call(std::string_view text);

/// A value as it must be written inside a call: quoted when its characters ask for it.
std::string quote_value(std::string_view value);

}  // namespace tessera
