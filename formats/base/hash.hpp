// Content hashes: what a matrix, a point or a cached file is, in a few hexadecimal digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace tessera {

/// Streaming XXH3-128. Feed it, then read it.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add_bytes(std::span<const std::byte> bytes);
  /// Text is fed with its length, so that "ab","c" and "a","bc" differ.
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

/// XXH3-64 of one piece of memory, the fastest of these: for checksums, not for names.
std::uint64_t checksum(std::span<const std::byte> bytes);

/// 16 hexadecimal digits of a text.
std::string hash_text(std::string_view text);

}  // namespace tessera
