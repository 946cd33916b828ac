// The data of micro-benchmarks: pseudo-random words that host and device compute from their index,
// so that the words that a kernel has read can be checked.
#pragma once

#include <cstdint>

#include "formats/base/device_memory.hpp"

namespace tessera {

/// The finaliser of MurmurHash3 (Appleby): every input bit changes half of the output bits.
constexpr std::uint32_t mix_word(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

/// The next draw of a sequence whose upper bits are random (the linear congruential generator of
/// Numerical Recipes). It is one instruction; mix_word would take longer than the measured access.
constexpr std::uint32_t next_draw(std::uint32_t draw) { return draw * 1664525u + 1013904223u; }

/// Word i of every array that random_words fills.
constexpr std::uint32_t word_at(std::uint32_t i) { return mix_word(i ^ 0x9e3779b9u); }

/// Words 0 to count - 1 on the device. [count]
DeviceArray<std::uint32_t> random_words(std::size_t count);

/// A number with a magnitude in [0.5, 1) and either sign: products of such operands neither
/// overflow nor vanish.
constexpr float float_at(std::uint32_t i) {
  const std::uint32_t word = word_at(i);
  const float magnitude = 0.5f + static_cast<float>(word >> 9) * 0x1p-24f;
  return (word & 1) != 0 ? magnitude : -magnitude;
}

}  // namespace tessera
