// What micro-benchmarks read: pseudo-random words that host and device know by their place, so that
// what a kernel has read can be checked.
#pragma once

#include <cstdint>

#include "formats/base/device_memory.hpp"

namespace tessera {

/// The finaliser of MurmurHash3 (Appleby): every bit of the input moves half of those of the
/// output.
constexpr std::uint32_t mix_word(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

/// The next of a sequence of draws whose upper bits are random (the linear congruential generator
/// of Numerical Recipes): one instruction, where mix_word would take longer than what it is drawn
/// for.
constexpr std::uint32_t next_draw(std::uint32_t draw) { return draw * 1664525u + 1013904223u; }

/// Word i of every array that random_words fills.
constexpr std::uint32_t word_at(std::uint32_t i) { return mix_word(i ^ 0x9e3779b9u); }

/// On the device.
DeviceArray<std::uint32_t> random_words(std::size_t count);

/// 0.5 to 1, of either sign: operands whose products neither overflow nor vanish.
constexpr float float_at(std::uint32_t i) {
  const std::uint32_t word = word_at(i);
  const float magnitude = 0.5f + static_cast<float>(word >> 9) * 0x1p-24f;
  return (word & 1) != 0 ? magnitude : -magnitude;
}

}  // namespace tessera
