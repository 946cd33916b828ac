#include "formats/base/escaped.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace tessera {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (byte_at(text, at) & 0xc0) == 0x80;
}

/// Bytes of the printable character that the text starts with; 0 when it starts with another one.
/// The ranges are those of the Unicode Standard, table 3-7, without the control characters.
std::size_t printable_size(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  if (!continues(text, 1)) return 0;
  const unsigned char second = byte_at(text, 1);
  if (first >= 0xc2 && first <= 0xdf) return first == 0xc2 && second < 0xa0 ? 0 : 2;
  if (!continues(text, 2)) return 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && second < 0xa0;
    const bool surrogate = first == 0xed && second > 0x9f;
    return overlong || surrogate ? 0 : 3;
  }
  if (!continues(text, 3) || first < 0xf0 || first > 0xf4) return 0;
  const bool overlong = first == 0xf0 && second < 0x90;
  const bool beyond = first == 0xf4 && second > 0x8f;
  return overlong || beyond ? 0 : 4;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const std::size_t size = printable_size(text);
    if (size > 0)
      safe += text.substr(0, size);
    else
      safe += fmt::format("\\x{:02x}", byte_at(text, 0));
    text.remove_prefix(size > 0 ? size : 1);
  }
  return safe;
}

std::string escaped_lines(std::string_view text) {
  std::string lines;
  while (true) {
    const std::size_t end = text.find('\n');
    lines += escaped(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    lines += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace tessera
