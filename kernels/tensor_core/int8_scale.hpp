// A matrix in INT8: one scale for all of it, symmetric about zero, to nearest even (Magicube
// quantises so, section 4; Wu et al., arXiv 2004.09602, call it per-tensor).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace tessera {

constexpr int kLargestInt8 = 127;

class Int8Scale {
 public:
  /// NaN where there is one among the values.
  explicit Int8Scale(std::span<const float> values) {
    std::uint32_t largest = 0;
    for (const float value : values)
      largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffu);
    scale_ = std::bit_cast<float>(largest) / kLargestInt8;
  }

  /// What 1 stands for.
  float value() const { return scale_; }

  /// Zero where the scale is zero or not finite: the scale itself then tells.
  std::int8_t quantize(float value) const {
    const float scaled = value / scale_;
    if (scale_ == 0 || std::isnan(scaled)) return 0;
    return static_cast<std::int8_t>(
        std::clamp(std::nearbyint(scaled), -1.0f * kLargestInt8, 1.0f * kLargestInt8));
  }

 private:
  float scale_;
};

/// What an exact sum of products stands for, rounded as the device does it.
inline float int8_result(std::int32_t sum, const Int8Scale& a, const Int8Scale& b) {
  const float value = static_cast<float>(sum) * a.value() * b.value();
  return std::isnan(value) ? std::bit_cast<float>(0x7fffffffu) : value;
}

}  // namespace tessera
