// Texts that come from outside, safe to print: a control character in one steers a terminal, and a
// byte that is not UTF-8 cannot stand in JSON.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// The text with control characters and bytes that are not UTF-8 as \xNN.
std::string escaped(std::string_view text);

/// Likewise, but for the ends of lines.
std::string escaped_lines(std::string_view text);

}  // namespace tessera
