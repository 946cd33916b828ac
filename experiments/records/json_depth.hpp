// The nesting of a JSON text, for what comes from outside: the parser takes any depth, but copying,
// comparing and printing its values use the stack.
#pragma once

#include <string_view>

namespace tessera {

inline constexpr int kDeepestJson = 100;

/// Levels of objects and lists within each other: 0 for a number, 1 for {}. Of a text that is not
/// JSON, some number.
int json_depth(std::string_view text);

}  // namespace tessera
