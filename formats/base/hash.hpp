// Content hashes: a few hexadecimal digits that identify a matrix, a point or a cached file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace tessera {

/// Streaming XXH3-128: add data, then read the digits.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add_bytes(std::span<const std::byte> bytes);
  /// Adds text together with its length, so that "ab","c" and "a","bc" differ.
  void add(std::string_view text);
  template <class T>
  requires std::is_arithmetic_v<T>
  void add_value(T value) { add_bytes(std::as_bytes(std::span(&value, 1))); }

  std::string hex128() const;  // 32 digits
  std::string hex64() const;   // the first 16 of them

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3-64 of a block of memory, the fastest hash here: for checksums, not for names.
std::uint64_t checksum(std::span<const std::byte> bytes);

/// The first 16 hexadecimal digits of a text's XXH3-128.
std::string hash_text(std::string_view text);

}  // namespace tessera
