// Reproducible random numbers: the same on every machine, in any order, from any thread.
//
// Counter-based: draw `index` of stream `seed` is a hash of the two (the finaliser of SplitMix64,
// Steele, Lea and Flood 2014), so a parallel fill needs no state and std::*_distribution, which
// differs between standard libraries, is not involved.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace tessera {

/// SplitMix64's finaliser: a bijection in which each output bit depends on all input bits.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// 64 random bits: draw `index` of stream `seed`.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  return mix_bits(mix_bits(seed + 0x9e3779b97f4a7c15u) + (index + 1) * 0x9e3779b97f4a7c15u);
}

/// Uniform in [0, 1), a multiple of 2^-53.
constexpr double random_unit(std::uint64_t seed, std::uint64_t index) {
  return static_cast<double>(random_bits(seed, index) >> 11) * 0x1p-53;
}

/// Uniform over the odd multiples of 2^-24 in (-1, 1): never zero, which would hide a wrong index,
/// and with all 24 significant bits in use, so that rounding to TF32 or FP16 shows.
constexpr float random_signed(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t bits = random_bits(seed, index);
  const float magnitude = static_cast<float>((bits >> 41) * 2 + 1) * 0x1p-24f;
  return (bits & 1) != 0 ? magnitude : -magnitude;
}

/// A standard normal number (Box-Muller).
inline double random_normal(std::uint64_t seed, std::uint64_t index) {
  const double radius = std::sqrt(-2 * std::log(1 - random_unit(seed, 2 * index)));
  return radius * std::cos(2 * std::numbers::pi * random_unit(seed, 2 * index + 1));
}

/// A sequence of draws, for code that takes them one after another.
class RandomSequence {
 public:
  explicit RandomSequence(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t bits() { return random_bits(seed_, index_++); }
  double unit() { return random_unit(seed_, index_++); }
  /// Uniform in [0, bound); the bias of the multiplication is below 2^-32 for 32-bit bounds.
  std::uint64_t below(std::uint64_t bound) {
    __extension__ typedef unsigned __int128 Wide;  // not ISO C++
    return static_cast<std::uint64_t>((static_cast<Wide>(bits()) * bound) >> 64);
  }

  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::uint64_t seed_;
  std::uint64_t index_ = 0;
};

}  // namespace tessera
