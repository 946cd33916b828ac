// A value of a line of JSON, and the scanning of values that have no parts.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tessera {

enum class JsonKind : std::uint8_t { kNull, kBool, kInteger, kFloat, kText, kArray, kObject };

/// A value; in a list of all values of a line, those inside an object or an array follow it.
struct JsonValue {
  std::string_view key;   // of a member of an object, escaped; empty elsewhere
  std::string_view text;  // as in the line
  std::uint32_t end = 0;  // the place in the list behind all that is inside it
  JsonKind kind = JsonKind::kNull;
};

/// True for the bytes of a text that stand for themselves and are ASCII.
inline constexpr std::array<bool, 256> kPlainBytes = [] {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x7f; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

/// Behind those that follow.
inline const char* skip_plain(const char* at, const char* end) {
  while (at != end && kPlainBytes[static_cast<unsigned char>(*at)]) ++at;
  return at;
}

/// Behind a number as dump() writes it, or with more digits; null for anything else, and for what
/// no double or 64-bit integer can hold. `kind` is that of the number.
const char* skip_number(const char* at, const char* end, JsonKind& kind);

/// Behind the word; null for anything else.
inline const char* skip_word(const char* at, const char* end, std::string_view word) {
  const bool is_here = std::string_view(at, static_cast<std::size_t>(end - at)).starts_with(word);
  return is_here ? at + word.size() : nullptr;
}

}  // namespace tessera
