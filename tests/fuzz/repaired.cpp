#include "tests/fuzz/repaired.hpp"

#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace tessera::fuzz {
namespace {

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// PKWARE's APPNOTE, 4.3.7 and 4.3.12: local headers, and the directory in the same order.
void repair_zip(std::string& bytes) {
  constexpr std::size_t kLocal = 30, kCentral = 46;
  std::size_t entry = bytes.find("PK\1\2");
  for (std::size_t at = 0; at + kLocal <= bytes.size() && bytes.compare(at, 4, "PK\3\4") == 0;) {
    const std::size_t data = at + kLocal + number_at<std::uint16_t>(bytes, at + 26) +
                             number_at<std::uint16_t>(bytes, at + 28);
    const std::size_t size = number_at<std::uint32_t>(bytes, at + 18);
    if (data > bytes.size() || size > bytes.size() - data) return;
    const auto crc = static_cast<std::uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data() + data), size));
    const bool stored = number_at<std::uint16_t>(bytes, at + 8) == 0;
    if (stored) std::memcpy(bytes.data() + at + 14, &crc, 4);
    if (entry != std::string::npos && entry + kCentral <= bytes.size()) {
      if (stored) std::memcpy(bytes.data() + entry + 16, &crc, 4);
      entry = bytes.find("PK\1\2", entry + kCentral);
    }
    at = data + size;
  }
}

/// POSIX.1, ustar: six octal digits at byte 148 over a header with blanks there.
void repair_tar(std::string& bytes) {
  constexpr std::size_t kUnit = 512, kMark = 257, kSum = 148;
  for (std::size_t at = 0; at + kUnit <= bytes.size(); at += kUnit) {
    if (bytes.compare(at + kMark, 5, "ustar") != 0) continue;
    unsigned sum = 8 * ' ';
    for (std::size_t i = 0; i < kUnit; ++i)
      if (i < kSum || i >= kSum + 8) sum += static_cast<unsigned char>(bytes[at + i]);
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    std::memcpy(bytes.data() + at + kSum, digits, 7);
    bytes[at + kSum + 7] = ' ';
  }
}

}  // namespace

std::string repaired(const std::string& suffix, std::string_view input) {
  std::string bytes(input);
  if (suffix == ".npz" && input.starts_with("PK\3\4")) repair_zip(bytes);
  if (suffix.starts_with(".tar") && input.size() >= 512) repair_tar(bytes);
  return bytes;
}

}  // namespace tessera::fuzz
